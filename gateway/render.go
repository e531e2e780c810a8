package gateway

import (
	"encoding/json"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/run"
)

// writeJSON answers with v. A value that cannot be encoded is an error before
// anything is written.
func writeJSON(c echo.Context, status int, media string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Blob(status, media, append(data, '\n'))
}

// errShutdown ends streams when the gateway shuts down.
func errShutdown() error {
	return run.Errorf(run.CodeUnavailable, "the gateway is shutting down")
}

// listOf returns s, never nil: JSON must show an empty list as [].
func listOf[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// mapOf returns m, never nil: JSON must show an empty map as {}.
func mapOf[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}
