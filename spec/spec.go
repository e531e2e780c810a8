// Package spec reads specifications of runs, in YAML and JSON, into run.Spec,
// validates them, and expands them into tasks. It also reads and validates the
// other inputs of clients: schedules, pools, fleets and webhooks.
//
// Reading is strict: everything that it does not understand is a fault with a path and
// line, and it reports all faults at once. It is lenient only where the meaning is
// clear: short forms (a dependency as a string, approval as a bool) and unquoted
// numbers where only text is possible. Memory and time are bounded in proportion to
// the size of the input.
package spec

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
)

// Format is the format of an input.
type Format string

// The formats.
const (
	FormatYAML Format = "yaml"
	FormatJSON Format = "json"
)

// Detect derives the format from a content type ("application/json;
// charset=utf-8") or the name of a file ("run.yml"), and reports whether it is
// one of the two formats.
func Detect(name string) (Format, bool) {
	switch strings.ToLower(path.Ext(name)) {
	case ".json":
		return FormatJSON, true
	case ".yaml", ".yml":
		return FormatYAML, true
	}
	media, _, err := mime.ParseMediaType(name)
	if err != nil {
		return "", false
	}
	switch {
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return FormatJSON, true
	case slices.Contains([]string{"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"}, media),
		strings.HasSuffix(media, "+yaml"):
		return FormatYAML, true
	}
	return "", false
}

// Read is Parser.Read without options.
func Read(data []byte, format Format) (*run.Spec, error) { return Parser{}.Read(data, format) }

// Validate is Parser.Validate without options.
func Validate(data []byte, format Format) (*run.Spec, error) { return Parser{}.Validate(data, format) }

// Parser reads specifications. The zero value is ready for use.
type Parser struct {
	// Extra has additional keys that are allowed at the top of a specification,
	// and the variables that receive their values, which are strings.
	Extra map[string]*string
	// InputValues are values of inputs, which override those in the specification.
	InputValues map[string]string
	// NoInputs accepts a specification without values of required inputs.
	NoInputs bool
}

// Read reads a specification. The error is a *run.Error: CodeTooLarge above
// run.MaxRequestBytes, CodeUnreadable for input that is not in the format,
// CodeUnsupportedMedia for an unknown format, and CodeInvalid with all faults
// of the form. Read does not check the content: see Validate.
func (p Parser) Read(data []byte, format Format) (*run.Spec, error) {
	root, err := parse(data, format)
	if err != nil {
		return nil, err
	}
	d := newDecoder(p.Extra)
	s := d.document(root)
	if len(d.faults) > 0 {
		return nil, invalid(d.faults)
	}
	p.setInputs(s)
	return s, nil
}

// Validate reads a specification and checks it with ValidateRun. It fails like
// Read; CodeInvalid has all faults of form and content, by line.
func (p Parser) Validate(data []byte, format Format) (*run.Spec, error) {
	return p.ValidateContext(context.Background(), data, format)
}

// ValidateContext is Validate with a context. It returns the cause if ctx ends
// before the validation does.
func (p Parser) ValidateContext(ctx context.Context, data []byte, format Format) (*run.Spec, error) {
	root, err := parse(data, format)
	if err != nil {
		return nil, err
	}
	d := newDecoder(p.Extra)
	d.done = ctx.Done()
	s := d.document(root)
	p.setInputs(s)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the specification: %w", context.Cause(ctx))
	}
	if d.aborted {
		return nil, invalid(d.faults)
	}
	faults := d.faults
	missing := inputs.MissingFault
	if p.NoInputs {
		missing = inputs.MissingStandIn
	}
	content, err := validateRun(ctx, s, missing)
	if err != nil {
		return nil, err
	}
	for _, f := range content {
		if !causedBy(f, d.faults) {
			faults = append(faults, f)
		}
	}
	if len(faults) == 0 {
		return s, nil
	}
	locate(faults, root)
	return nil, invalid(faults)
}

// setInputs overrides values of inputs.
func (p Parser) setInputs(s *run.Spec) {
	if len(p.InputValues) == 0 {
		return
	}
	if s.InputValues == nil {
		s.InputValues = make(map[string]string)
	}
	maps.Copy(s.InputValues, p.InputValues)
}

// Marshal writes a specification as JSON in its canonical form, secrets in the
// clear. Use it only to pass a specification on for execution, never to show
// it.
func Marshal(s *run.Spec) ([]byte, error) {
	withSecrets := struct {
		*run.Spec
		Secrets map[string]string `json:"secrets,omitempty"` // replaces Spec's
	}{Spec: s}
	if s.Secrets != nil {
		withSecrets.Secrets = make(map[string]string, len(s.Secrets))
		for name, secret := range s.Secrets {
			withSecrets.Secrets[name] = secret.Reveal()
		}
	}
	b, err := json.Marshal(withSecrets)
	if err != nil {
		return nil, fmt.Errorf("marshal the specification: %w", err)
	}
	return b, nil
}

func parse(data []byte, format Format) (*yaml.Node, error) {
	if len(data) > run.MaxRequestBytes {
		return nil, run.Errorf(run.CodeTooLarge, "the specification has %d bytes; the limit is %d", len(data), run.MaxRequestBytes)
	}
	if line, ok := invalidUTF8(data); ok {
		return nil, unreadable(line, "it is not valid UTF-8")
	}
	switch format {
	case FormatYAML:
		return parseYAML(data)
	case FormatJSON:
		return parseJSON(data)
	}
	return nil, run.Errorf(run.CodeUnsupportedMedia, "a specification is YAML or JSON, not %q", string(format))
}

// causedBy reports whether a fault of the content is caused by a fault of the
// form: a value with a fault is left empty, and so may be the value that
// contains it.
func causedBy(f run.Fault, form []run.Fault) bool {
	return slices.ContainsFunc(form, func(of run.Fault) bool {
		gap := of.Code != run.FaultDuplicate && of.Code != run.FaultUnknownField
		if f.Code == run.FaultUnknownInput && within(of.Path, "inputs") {
			return true // the declaration of the input may be the one with the fault
		}
		return gap && within(f.Path, of.Path) || f.Code == run.FaultRequired && within(of.Path, f.Path)
	})
}

// within reports whether path is outer or below it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// locate sets the line of faults that have none: the line of their path, or of
// the nearest parent that exists.
func locate(faults []run.Fault, root *yaml.Node) {
	d := newDecoder(nil)
	d.lines = make(map[run.Path]int)
	d.document(root)
	d.locate(faults)
}

// locate sets the lines of faults from the lines that the decoder has recorded.
func (d *decoder) locate(faults []run.Fault) {
	for i := range faults {
		f := &faults[i]
		if f.Code == run.FaultTooMany {
			continue
		}
		for p := run.Path(f.Path); f.Line == 0; p = p.Parent() {
			f.Line = d.lines[p]
			if p == "" {
				break
			}
		}
	}
}

func invalid(faults []run.Fault) *run.Error {
	slices.SortStableFunc(faults, func(a, b run.Fault) int { return cmp.Compare(order(a), order(b)) })
	if len(faults) > run.MaxFaults {
		faults = append(faults[:run.MaxFaults:run.MaxFaults], run.Fault{Code: run.FaultTooMany, Detail: "there are more faults than are listed here"})
	}
	if len(faults) == 1 {
		return run.InvalidError("the specification has a fault", faults)
	}
	return run.InvalidError(fmt.Sprintf("the specification has %d faults", len(faults)), faults)
}

// order sorts faults without a line last.
func order(f run.Fault) uint { return uint(f.Line) - 1 }

func unreadable(line int, detail string) *run.Error {
	message := detail
	if line > 0 {
		message = fmt.Sprintf("line %d: %s", line, detail)
	}
	return &run.Error{
		Code: run.CodeUnreadable, Message: message,
		Faults: []run.Fault{{Line: line, Code: run.CodeUnreadable, Detail: detail}},
	}
}
