// Package api is the HTTP contract of Drover's gateway: the OpenAPI file, and the
// types and the client that are generated from it.
package api

import _ "embed"

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml openapi.yaml

//go:embed openapi.yaml
var document []byte

// Document returns the OpenAPI file. Callers must not change it.
func Document() []byte { return document }

//go:embed schemas/run.json
var runSchema []byte

// RunSchema returns the JSON Schema (draft 2020-12) of the run file. It accepts
// what package spec reads without a fault in a single value; docs/run-file.md
// lists the rules between values, which it cannot state. Callers must not
// change it.
func RunSchema() []byte { return runSchema }
