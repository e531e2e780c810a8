package temporalite_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/internal/temporalite"
)

// TestUI_refuses_other_pages makes the calls of web pages of other servers.
// Neither a foreign Origin nor a foreign Host may terminate a workflow.
func TestUI_refuses_other_pages(t *testing.T) {
	options := temporalite.Options{
		File: filepath.Join(t.TempDir(), "temporal.db"), Address: freeAddress(t), UI: freeAddress(t), UIHosts: []string{"ui.example.com"}, Namespace: "drover",
	}
	defer start(t, options)()
	c, err := client.Dial(client.Options{HostPort: options.Address, Namespace: options.Namespace})
	require.NoError(t, err)
	defer c.Close()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "target", TaskQueue: "none"}, "anything")
	require.NoError(t, err)
	status := func() enumspb.WorkflowExecutionStatus {
		got, err := c.DescribeWorkflowExecution(t.Context(), "target", run.GetRunID())
		require.NoError(t, err)
		return got.WorkflowExecutionInfo.GetStatus()
	}
	browser := &http.Client{Timeout: time.Minute}
	do := func(method, path, host, origin, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+options.UI+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		// The UI checks no CSRF token of a request with credentials.
		req.Header.Set("Authorization", "Bearer x")
		if host != "" {
			req.Host = host
		}
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		res, err := browser.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	terminate := func(host, origin string) int {
		return do(http.MethodPost, "/api/v1/namespaces/drover/workflows/target/terminate", host, origin, `{"reason":"a test"}`)
	}
	for _, call := range []struct{ host, origin string }{
		{"", "http://evil.example"},
		{"", "null"},
		{"", "http://localhost:1"},
		{"evil.example", ""},
		{"evil.example", "http://evil.example"},
	} {
		require.Equal(t, http.StatusForbidden, terminate(call.host, call.origin), call)
		require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, status(), call)
		require.Equal(t, http.StatusForbidden, do(http.MethodGet, "/", call.host, call.origin, ""), call)
	}
	for _, host := range []string{"", "localhost:8233", "ui.example.com"} {
		require.Equal(t, http.StatusOK, do(http.MethodGet, "/", host, "", ""), host)
		require.Equal(t, http.StatusOK, do(http.MethodGet, "/api/v1/namespaces/drover/workflows/target", host, "", ""), host)
	}
	require.Equal(t, http.StatusOK, terminate("", "http://"+options.UI))
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, status())
}
