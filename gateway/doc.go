// Package gateway is the only door for clients and executors: the HTTP server
// behind the contract of package api.
//
// It knows package run's Service and Desk, and nothing of what stands behind
// them.
package gateway

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../api/openapi.yaml
