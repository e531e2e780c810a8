// Package gateway is the HTTP server for clients and executors. It implements
// the contract of package api.
//
// It uses the interfaces Service and ExecutorAPI of package run, and no
// implementation of them.
package gateway

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../api/openapi.yaml
