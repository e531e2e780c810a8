package openapi

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// Parameter is a query parameter of the contract.
type Parameter struct {
	Ref    string `yaml:"$ref"`
	Name   string `yaml:"name"`
	In     string `yaml:"in"`
	Schema Schema `yaml:"schema"`
}

// Schema is the part of a JSON schema that query parameters use.
type Schema struct {
	Ref     string   `yaml:"$ref"`
	Type    string   `yaml:"type"`
	Format  string   `yaml:"format"`
	Enum    []string `yaml:"enum"`
	Minimum *int64   `yaml:"minimum"`
	Maximum *int64   `yaml:"maximum"`
	Items   *Schema  `yaml:"items"`
}

// CheckQuery returns an error with all faults of a query: unknown parameters,
// repeated parameters, and invalid values.
func CheckQuery(op Operation, raw string) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return &run.Error{Code: run.CodeInvalid, Message: "the query of the URL cannot be parsed", Err: err}
	}
	var faults []run.Fault
	add := func(name string, code run.Code, format string, args ...any) {
		faults = append(faults, run.Fault{Path: name, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(op.Query, func(p Parameter) bool { return p.Name == name })
		if i < 0 {
			add(name, "unknown_parameter", "this call has no parameter %q; it has %s", name, parameterNames(op))
			continue
		}
		s := op.Query[i].Schema
		if s.Type == "array" && s.Items != nil {
			s = *s.Items
		} else if len(values[name]) > 1 {
			add(name, run.CodeInvalid, "%s may be given only once", name)
		}
		for _, v := range values[name] {
			if problem := s.check(v); problem != "" {
				add(name, run.CodeInvalid, "%s must be %s, not %q", name, problem, v)
			}
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return run.InvalidError(faults[0].Detail, faults)
}

// check returns a description of the valid values, or "" if v is valid.
func (s Schema) check(v string) string {
	switch {
	case len(s.Enum) > 0:
		if !slices.Contains(s.Enum, v) {
			return "one of " + strings.Join(s.Enum, ", ")
		}
	case s.Type == "integer":
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum {
			return s.integerRange()
		}
	case s.Type == "boolean":
		if v != "true" && v != "false" {
			return "true or false"
		}
	case s.Format == "date-time":
		if _, err := time.Parse(time.RFC3339, v); err != nil {
			return "a time such as 2006-01-02T15:04:05Z"
		}
	case v == "":
		return "a text that is not empty"
	}
	return ""
}

func (s Schema) integerRange() string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("an integer from %d to %d", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("an integer of at least %d", *s.Minimum)
	}
	return "an integer"
}

func parameterNames(op Operation) string {
	if len(op.Query) == 0 {
		return "none"
	}
	names := make([]string, len(op.Query))
	for i, p := range op.Query {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}
