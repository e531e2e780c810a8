package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
)

// codes reads the codes from the source, so that the test covers a new one.
func codes(t *testing.T) []run.Code {
	t.Helper()
	var all []run.Code
	for _, code := range pages.OfType(t, "run/error.go", "Code") {
		all = append(all, run.Code(code))
	}
	require.Greater(t, len(all), 15)
	return all
}

func TestKindOf_has_every_code(t *testing.T) {
	t.Parallel()
	for _, code := range codes(t) {
		kind := kindOf(code)
		require.NotEmpty(t, kind.title, code)
		if code != run.CodeInternal {
			require.NotEqual(t, kindOf(run.CodeInternal), kind, "%s has no status of its own", code)
		}
	}
	require.Equal(t, kindOf(run.CodeInternal), kindOf("unknown"))
}

func TestProblemOf(t *testing.T) {
	t.Parallel()
	fault := []run.Fault{{Path: "tasks.a", Line: 3, Code: "cycle", Detail: "a depends on itself"}}
	cases := map[string]struct {
		err    error
		method string
		status int
		code   run.Code
		detail string
	}{
		"coded":   {run.Errorf(run.CodeNotFound, "no run x"), http.MethodGet, 404, run.CodeNotFound, "no run x"},
		"wrapped": {fmt.Errorf("doing: %w", run.Errorf(run.CodeConflict, "busy")), http.MethodPost, 409, run.CodeConflict, "busy"},
		"cause stays inside": {
			&run.Error{Code: run.CodeUnavailable, Message: "no store", Err: errors.New("dial db-7:5432")},
			http.MethodGet, 503, run.CodeUnavailable, "no store",
		},
		"invalid content": {run.InvalidError("no good", fault), http.MethodPost, 422, run.CodeInvalid, "no good"},
		"invalid query":   {run.InvalidError("no good", fault), http.MethodGet, 400, run.CodeInvalid, "no good"},
		"not supported yet": {
			run.InvalidError("x", []run.Fault{{Path: "foreach", Code: run.CodeNotSupported}}),
			http.MethodPost, 422, run.CodeNotSupported, "the request uses a feature that is not supported yet",
		},
		"unknown":     {errors.New("password hunter2"), http.MethodGet, 500, run.CodeInternal, ""},
		"internal":    {run.Errorf(run.CodeInternal, "password hunter2"), http.MethodGet, 500, run.CodeInternal, ""},
		"deadline":    {fmt.Errorf("x: %w", context.DeadlineExceeded), http.MethodGet, 504, run.CodeTimeout, "the request timed out"},
		"client gone": {fmt.Errorf("x: %w", context.Canceled), http.MethodGet, 499, run.CodeCanceled, "the client canceled the request"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := problemOf(tc.err, tc.method)
			require.Equal(t, tc.status, p.Status)
			require.Equal(t, string(tc.code), p.Code)
			require.Equal(t, tc.detail, p.Detail)
		})
	}
}
