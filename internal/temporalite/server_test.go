package temporalite_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/internal/temporalite"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// start runs a server until the returned function is called, or the test ends.
func start(t *testing.T, options temporalite.Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	server := temporalite.New(options)
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-done:
		require.NoError(t, err)
		t.Fatal("the server stopped by itself")
	}
	return func() {
		cancel(nil)
		require.NoError(t, <-done)
	}
}

func TestServer(t *testing.T) {
	options := temporalite.Options{
		File:       filepath.Join(t.TempDir(), "temporal.db"),
		Address:    freeAddress(t),
		UI:         freeAddress(t),
		Namespace:  "drover",
		Attributes: map[string]enumspb.IndexedValueType{"DroverPhase": enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	}
	begin := time.Now()
	stop := start(t, options)
	t.Logf("ready after %s", time.Since(begin))

	c, err := client.Dial(client.Options{HostPort: options.Address, Namespace: options.Namespace})
	require.NoError(t, err)
	defer c.Close()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "kept", TaskQueue: "none"}, "anything")
	require.NoError(t, err)
	stop()

	begin = time.Now()
	defer start(t, options)()
	t.Logf("ready again after %s", time.Since(begin))
	described, err := c.WorkflowService().DescribeWorkflowExecution(t.Context(), &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: options.Namespace, Execution: nil,
	})
	require.Error(t, err, "the server refuses a call without an execution")
	require.Nil(t, described)
	description, err := c.DescribeWorkflowExecution(t.Context(), "kept", run.GetRunID())
	require.NoError(t, err, "a workflow outlives the server's restart")
	require.Equal(t, "kept", description.WorkflowExecutionInfo.GetExecution().GetWorkflowId())
}

func TestServer_refuses_an_address_in_use(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	err = temporalite.New(temporalite.Options{
		File: filepath.Join(t.TempDir(), "temporal.db"), Address: l.Addr().String(), Namespace: "drover",
	}).Run(t.Context())
	require.ErrorContains(t, err, l.Addr().String())
}
