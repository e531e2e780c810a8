package gateway_test

import (
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run/runtest"
)

// loadContract reads the OpenAPI file with an independent library, to check the
// gateway's parser too.
var loadContract = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(api.Document())
})

func contract(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := loadContract()
	require.NoError(t, err)
	return doc
}

func TestContract_is_valid(t *testing.T) {
	t.Parallel()
	require.NoError(t, contract(t).Validate(t.Context()))
}

func TestContract_routes(t *testing.T) {
	t.Parallel()
	var want []string
	for path, item := range contract(t).Paths.Map() {
		for method := range item.Operations() {
			want = append(want, method+" "+path)
		}
	}
	e := echo.New()
	gateway.RegisterHandlers(e, nil)
	parameter := regexp.MustCompile(`:(\w+)`)
	var got []string
	for _, r := range e.Routes() {
		got = append(got, r.Method+" "+parameter.ReplaceAllString(r.Path, "{$1}"))
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}

func TestContract_operations(t *testing.T) {
	t.Parallel()
	scopes := []any{"none", "read", "write", "exec", "admin", "executor"}
	// These calls begin and end what authenticates the others; they check the origin themselves.
	logins := []string{"beginSession", "endSession", "beginProviderLogin", "completeProviderLogin"}
	for path, item := range contract(t).Paths.Map() {
		for method, op := range item.Operations() {
			name := method + " " + path
			require.Contains(t, scopes, op.Extensions["x-scope"], "%s has no scope", name)
			if method != http.MethodGet {
				require.NotNil(t, op.RequestBody, "%s: the content type of a mutation is checked", name)
				if !slices.Contains(logins, op.OperationID) {
					require.NotContains(t, []any{"none", "read"}, op.Extensions["x-scope"], name)
				}
			}
			if len(item.Parameters)+len(op.Parameters) > 0 || op.RequestBody != nil {
				require.NotNil(t, op.Responses.Default(), "%s can fail and documents no error", name)
			}
		}
	}
}

func TestContract_is_served(t *testing.T) {
	t.Parallel()
	got := call{path: "/openapi.yaml"}.do(t, serve(t, gateway.Deps{Runs: &runtest.Service{}}, gateway.Options{}))
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/yaml", got.header.Get("Content-Type"))
	require.Equal(t, string(api.Document()), got.body)
}

// TestRunSchema_is_served checks that editors, which have no token, get the
// schema.
func TestRunSchema_is_served(t *testing.T) {
	t.Parallel()
	got := call{path: "/schemas/run.json"}.do(t, serve(t, gateway.Deps{Runs: &runtest.Service{}, Auth: testTokens(t)}, gateway.Options{}))
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/schema+json", got.header.Get("Content-Type"))
	require.Equal(t, string(api.RunSchema()), got.body)
}
