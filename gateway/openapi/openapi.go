// Package openapi reads the HTTP contract, the file api/openapi.yaml, for the
// checks that the gateway makes before it calls a handler.
package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/tokens"
)

// Operation is the part of an operation of the contract that middleware checks
// before the handler.
type Operation struct {
	ID     string
	Method string
	Path   string       // in the form of the contract: /api/v1/runs/{id}
	Scope  tokens.Scope // "" where no token is needed
	Stream bool         // the response is a stream
	Audit  bool         // each call has a record in the audit log
	Body   bool         // the body is required
	Media  []string
	Query  []Parameter
}

// document is the part of the OpenAPI file that the gateway uses.
type document struct {
	Paths      map[string]documentPath `yaml:"paths"`
	Components struct {
		Schemas       map[string]Schema       `yaml:"schemas"`
		Parameters    map[string]Parameter    `yaml:"parameters"`
		RequestBodies map[string]documentBody `yaml:"requestBodies"`
	} `yaml:"components"`
}

type documentPath struct {
	Get    *documentOperation `yaml:"get"`
	Put    *documentOperation `yaml:"put"`
	Post   *documentOperation `yaml:"post"`
	Delete *documentOperation `yaml:"delete"`
}

type documentOperation struct {
	ID         string        `yaml:"operationId"`
	Scope      string        `yaml:"x-scope"`
	Stream     bool          `yaml:"x-stream"`
	Audit      *bool         `yaml:"x-audit"`
	Parameters []Parameter   `yaml:"parameters"`
	Body       *documentBody `yaml:"requestBody"`
}

type documentBody struct {
	Ref      string               `yaml:"$ref"`
	Required bool                 `yaml:"required"`
	Content  map[string]yaml.Node `yaml:"content"`
}

// Read returns the operations of the OpenAPI file by id.
func Read(data []byte) (map[string]Operation, error) {
	var doc document
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	ops := make(map[string]Operation)
	for path, item := range doc.Paths {
		for method, o := range map[string]*documentOperation{
			http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodDelete: item.Delete,
		} {
			if o == nil {
				continue
			}
			op, err := doc.operation(method, path, *o)
			if err != nil {
				return nil, fmt.Errorf("read the contract of %s %s: %w", method, path, err)
			}
			ops[op.ID] = op
		}
	}
	return ops, nil
}

func (d *document) operation(method, path string, o documentOperation) (Operation, error) {
	op := Operation{ID: o.ID, Method: method, Path: path, Stream: o.Stream}
	if o.Scope != "none" {
		op.Scope = tokens.Scope(o.Scope)
		if !op.Scope.Valid() {
			return op, fmt.Errorf("%q is not a scope", o.Scope)
		}
	}
	// What executors report is in the runs: their calls are not those of people.
	op.Audit = method != http.MethodGet && op.Scope != tokens.Executor
	if o.Audit != nil {
		op.Audit = *o.Audit
	}
	if o.Body != nil {
		body := *o.Body
		if body.Ref != "" {
			body = d.Components.RequestBodies[strings.TrimPrefix(body.Ref, "#/components/requestBodies/")]
		}
		op.Body = body.Required
		for media := range body.Content {
			op.Media = append(op.Media, media)
		}
		slices.Sort(op.Media)
	}
	for _, p := range o.Parameters {
		if p.Ref != "" {
			p = d.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
		}
		if p.In == "query" {
			p.Schema = d.resolve(p.Schema)
			op.Query = append(op.Query, p)
		}
	}
	return op, nil
}

// resolve follows the reference of a schema, or of its items.
func (d *document) resolve(s Schema) Schema {
	if s.Ref != "" {
		return d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	if s.Items != nil {
		items := d.resolve(*s.Items)
		s.Items = &items
	}
	return s
}
