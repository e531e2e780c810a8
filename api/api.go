// Package api is the HTTP contract of Drover's gateway: the OpenAPI file, and the
// types and the client that are generated from it.
package api

import _ "embed"

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml openapi.yaml

//go:embed openapi.yaml
var document []byte

// Document returns the OpenAPI file. Callers must not change it.
func Document() []byte { return document }
