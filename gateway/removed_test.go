package gateway_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// Every call of a removed executor reports the removal: any of them may be its
// first.
func TestServer_reports_removal(t *testing.T) {
	t.Parallel()
	gone := run.Errorf(run.CodeForbidden, "executor host-7 was removed")
	executorAPI := &runtest.ExecutorAPI{
		RegisterFunc:     func(context.Context, run.Executor) (run.DesiredState, error) { return run.DesiredState{}, gone },
		RenewFunc:        func(context.Context, run.Renewal) (run.DesiredState, error) { return run.DesiredState{}, gone },
		ClaimFunc:        func(context.Context, run.ClaimRequest) (run.Definition, error) { return run.Definition{}, gone },
		AppendFramesFunc: func(context.Context, run.FrameBatch) error { return gone },
		ClaimStatesFunc:  func(context.Context, string, []run.Key) (map[run.Key]run.ClaimState, error) { return nil, gone },
		FindArchivesFunc: func(context.Context, run.ArchiveQuery) ([]run.ArchiveRef, error) {
			return nil, gone
		},
		OpenArchiveFunc:  func(context.Context, run.ArchiveRead) (io.ReadCloser, error) { return nil, gone },
		BeginArchiveFunc: func(context.Context, run.ArchiveSave) (run.ArchiveUpload, error) { return run.ArchiveUpload{}, gone },
		SaveArchiveFunc: func(context.Context, run.ArchiveUpload, io.Reader) (run.ArchiveInfo, error) {
			return run.ArchiveInfo{}, gone
		},
		LocateArchiveFunc: func(context.Context, run.ArchiveRead) (string, error) { return "", gone },
	}
	base := serve(t, gateway.Deps{ExecutorAPI: executorAPI, Auth: boundTokens(t)}, gateway.Options{})
	step := fmt.Sprintf(`{"executor": "host-7", "step": 0, "key": {"run": %q, "task": 0, "attempt": 1, "dispatch": 1}}`, runID)
	calls := map[string]call{}
	for path, body := range maps.All(executorCalls("host-7")) {
		calls[path] = post(path, "seven", body)
	}
	calls["find"], calls["begin"] = post("/archives/find", "seven", step), post("/archives/begin", "seven", step)
	const archives = "/api/v1/executor/archives?executor=host-7"
	header := func(more ...string) map[string]string {
		h := map[string]string{"Authorization": "Bearer seven", "Drover-Archive": "ref"}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	calls["open"] = call{http.MethodGet, archives, "", header()}
	calls["locate"] = call{http.MethodGet, archives, "", header("Drover-Direct", "true")}
	calls["save"] = call{http.MethodPut, archives, "x", header("Content-Type", "application/zstd")}
	for name, c := range calls {
		t.Run(name, func(t *testing.T) {
			got := c.do(t, base)
			got.problem(t, http.StatusForbidden, run.CodeForbidden)
			require.Equal(t, "removed", got.header.Get("Drover-Executor-State"))
		})
	}
}
