package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/tokens"
)

// operation is the part of an operation of the contract that middleware checks
// before the handler.
type operation struct {
	id     string
	method string
	path   string       // in the form of the contract: /api/v1/runs/{id}
	scope  tokens.Scope // "" where no token is needed
	stream bool         // the response is a stream
	body   bool         // the body is required
	media  []string
	query  []parameter
}

// document is the part of the OpenAPI file that the gateway uses.
type document struct {
	Paths      map[string]documentPath `yaml:"paths"`
	Components struct {
		Schemas       map[string]schema       `yaml:"schemas"`
		Parameters    map[string]parameter    `yaml:"parameters"`
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
	Parameters []parameter   `yaml:"parameters"`
	Body       *documentBody `yaml:"requestBody"`
}

type documentBody struct {
	Ref      string               `yaml:"$ref"`
	Required bool                 `yaml:"required"`
	Content  map[string]yaml.Node `yaml:"content"`
}

// readContract returns the operations of the OpenAPI file by id.
func readContract(data []byte) (map[string]operation, error) {
	var doc document
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	ops := make(map[string]operation)
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
			ops[op.id] = op
		}
	}
	return ops, nil
}

func (d *document) operation(method, path string, o documentOperation) (operation, error) {
	op := operation{id: o.ID, method: method, path: path, stream: o.Stream}
	if o.Scope != "none" {
		op.scope = tokens.Scope(o.Scope)
		if !op.scope.Valid() {
			return op, fmt.Errorf("%q is not a scope", o.Scope)
		}
	}
	if o.Body != nil {
		body := *o.Body
		if body.Ref != "" {
			body = d.Components.RequestBodies[strings.TrimPrefix(body.Ref, "#/components/requestBodies/")]
		}
		op.body = body.Required
		for media := range body.Content {
			op.media = append(op.media, media)
		}
		slices.Sort(op.media)
	}
	for _, p := range o.Parameters {
		if p.Ref != "" {
			p = d.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
		}
		if p.In == "query" {
			p.Schema = d.resolve(p.Schema)
			op.query = append(op.query, p)
		}
	}
	return op, nil
}

// resolve follows the reference of a schema, or of its items.
func (d *document) resolve(s schema) schema {
	if s.Ref != "" {
		return d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	if s.Items != nil {
		items := d.resolve(*s.Items)
		s.Items = &items
	}
	return s
}
