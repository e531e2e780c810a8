package gateway_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// The actor of a call is the subject that the gateway authenticated, and nothing that
// the client says.
func TestServer_actors(t *testing.T) {
	t.Parallel()
	actors := make(chan string, 1)
	service := &runtest.Service{StopFunc: func(ctx context.Context, _ run.ID, _ run.StopOptions, _ run.Token) (run.Run, error) {
		actors <- run.ActorOf(ctx)
		return fullRun(), nil
	}}
	header := map[string]string{
		"Content-Type": "application/json", "X-Forwarded-User": "eve", "X-Drover-Actor": "eve", "From": "eve", "Authorization": "Bearer secret-write",
	}
	stop := call{http.MethodPost, "/api/v1/runs/" + runID + "/stop", "{}", header}
	require.Equal(t, http.StatusOK, stop.do(t, serve(t, gateway.Deps{Runs: service, Auth: testTokens(t)}, gateway.Options{})).status)
	require.Equal(t, "write", <-actors)
	require.Equal(t, http.StatusOK, stop.do(t, serve(t, gateway.Deps{Runs: service}, gateway.Options{})).status)
	require.Equal(t, "local", <-actors)
}

func TestServer_approvals(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	service := &runtest.Service{
		ApprovalsFunc: func(_ context.Context, q run.ApprovalQuery) (run.ApprovalPage, error) {
			require.Equal(t, run.ApprovalQuery{Group: "/a", Limit: 1, After: "x"}, q)
			return run.ApprovalPage{After: "y", Approvals: []run.WaitingApproval{{
				Run: runID, RunName: "n", Group: "/a/b", Task: "gate", Approval: run.Approval{Approvers: 2, From: []string{"ann", "bob"}},
				ApprovedBy: []string{"ann"}, Since: since, Due: since.Add(time.Hour),
			}}}, nil
		},
		RejectFunc: func(_ context.Context, id run.ID, task, subject, reason string, _ run.Token) (run.Run, error) {
			require.Equal(t, []string{runID, "gate", "write", "no"}, []string{string(id), task, subject, reason})
			return fullRun(), nil
		},
		SpecFunc: func(context.Context, run.ID) (*run.Spec, error) {
			return &run.Spec{Name: "n", Group: "/a/b", Secrets: map[string]run.Secret{"T": "hunter2"}, Tasks: map[string]*run.TaskSpec{}}, nil
		},
	}
	base := serve(t, gateway.Deps{Runs: service, Auth: testTokens(t)}, gateway.Options{})
	header := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer secret-write"}
	got := call{http.MethodGet, "/api/v1/approvals?group=/a&limit=1&after=x", "", header}.do(t, base)
	require.Equal(t, http.StatusOK, got.status, got.body)
	conforms(t, "ApprovalPage", got.body)
	require.JSONEq(t, `{"approvals": [{"run": "`+runID+`", "run_name": "n", "group": "/a/b", "task": "gate", "approvers": 2, "approved_by": ["ann"],
		"from": ["ann", "bob"], "waiting_since": "2026-02-01T12:00:00Z", "expires_at": "2026-02-01T13:00:00Z"}], "next_after": "y"}`, got.body)
	require.Equal(t, http.StatusBadRequest, call{http.MethodGet, "/api/v1/approvals?group=a", "", header}.do(t, base).status)

	reject := "/api/v1/runs/" + runID + "/tasks/gate/reject"
	require.Equal(t, http.StatusOK, call{http.MethodPost, reject, `{"reason": "no"}`, header}.do(t, base).status)
	reader := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer secret-read"}
	require.Equal(t, http.StatusForbidden, call{http.MethodPost, reject, `{"reason": "no"}`, reader}.do(t, base).status)

	got = call{http.MethodGet, "/api/v1/runs/" + runID + "/spec", "", reader}.do(t, base)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.NotContains(t, got.body, "hunter2", "not even by mistake of the service")
	require.Contains(t, got.body, `"T":"[redacted]"`)
}
