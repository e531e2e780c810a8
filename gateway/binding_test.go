package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// executorCalls are the calls of the executor API for an executor.
func executorCalls(executor string) map[string]string {
	key := `{"run": "` + runID + `", "task": 0, "attempt": 1, "dispatch": 1}`
	return map[string]string{
		"/register": fmt.Sprintf(`{"id": %q, "journal_id": "j", "pool": "linux", "driver": "shell", "os": "linux", "arch": "amd64",
			"slots": 1, "slots_used": 0, "version": "v", "privileged": false}`, executor),
		"/renew":        fmt.Sprintf(`{"executor": %q, "journal_id": "j", "slots_used": 0, "draining": false}`, executor),
		"/claim":        fmt.Sprintf(`{"executor": %q, "journal_id": "j", "key": %s}`, executor, key),
		"/frames":       fmt.Sprintf(`{"executor": %q, "key": %s, "frames": [{"v": 1, "n": 1, "t": "2026-01-02T03:04:05Z", "k": "output"}]}`, executor, key),
		"/claim-states": fmt.Sprintf(`{"executor": %q, "keys": [%s]}`, executor, key),
	}
}

func boundTokens(t *testing.T) *tokens.List {
	t.Helper()
	list, err := tokens.NewList([]tokens.Token{
		{Name: "free", Hash: tokens.Hash("free"), Scopes: []tokens.Scope{tokens.Executor}},
		{Name: "seven", Hash: tokens.Hash("seven"), Scopes: []tokens.Scope{tokens.Executor}, Binding: tokens.Binding{Executor: "host-7", Pool: "linux"}},
		{Name: "acme", Hash: tokens.Hash("acme"), Roles: roles.Bindings{{Role: roles.Admin, Groups: []string{"/acme/**"}}}},
		{Name: "set", Hash: tokens.Hash("set"), Scopes: []tokens.Scope{tokens.Executor}, Binding: tokens.Binding{Executor: "pod-*", Pool: "linux", Set: "pods"}},
	})
	require.NoError(t, err)
	return list
}

func post(path, token, body string) call {
	return call{http.MethodPost, "/api/v1/executor" + path, body, map[string]string{"Authorization": "Bearer " + token}}
}

func TestServer_tokens_act_as_their_executor_only(t *testing.T) {
	t.Parallel()
	executorAPI := &runtest.ExecutorAPI{
		RegisterFunc:     func(context.Context, run.Executor) (run.DesiredState, error) { return run.DesiredState{}, nil },
		RenewFunc:        func(context.Context, run.Renewal) (run.DesiredState, error) { return run.DesiredState{}, nil },
		ClaimFunc:        func(context.Context, run.ClaimRequest) (run.Definition, error) { return run.Definition{}, nil },
		AppendFramesFunc: func(context.Context, run.FrameBatch) error { return nil },
		ClaimStatesFunc:  func(context.Context, string, []run.Key) (map[run.Key]run.ClaimState, error) { return nil, nil },
	}
	base := serve(t, gateway.Deps{ExecutorAPI: executorAPI, Auth: boundTokens(t)}, gateway.Options{})
	for token, executors := range map[string]map[string]bool{
		"free":  {"host-7": true, "host-8": true},
		"seven": {"host-7": true, "host-70": false, "host-8": false},
		"set":   {"pod-1": true, "host-7": false},
	} {
		for executor, ok := range executors {
			for path, body := range executorCalls(executor) {
				got := post(path, token, body).do(t, base)
				if ok {
					require.Less(t, got.status, 300, "%s %s %s: %s", token, executor, path, got.body)
					continue
				}
				got.problem(t, http.StatusForbidden, run.CodeForbidden)
				require.Empty(t, got.header.Get("Drover-Executor-State"), "an executor must not mistake the error for its removal")
			}
		}
	}
	for path, body := range executorCalls("host-7") {
		problem := post(path, "acme", body).do(t, base).problem(t, http.StatusForbidden, run.CodeForbidden)
		require.Contains(t, problem.Detail, "a token with the scope executor")
	}
	other := `{"id": "host-7", "journal_id": "j", "pool": "gpu", "driver": "shell", "slots": 1}`
	post("/register", "seven", other).do(t, base).problem(t, http.StatusForbidden, run.CodeForbidden)
	require.Less(t, post("/register", "free", other).do(t, base).status, 300)
	for path, body := range map[string]string{
		"/register": `{"id": "pod-1", "journal_id": "j", "pool": "linux", "driver": "shell", "slots": 1, "set": %q}`,
		"/renew":    `{"executor": "pod-1", "journal_id": "j", "set": %q}`,
		"/claim":    `{"executor": "pod-1", "journal_id": "j", "set": %q, "key": {"run": "` + runID + `", "task": 0, "attempt": 1, "dispatch": 1}}`,
	} {
		require.Less(t, post(path, "set", fmt.Sprintf(body, "pods")).do(t, base).status, 300)
		got := post(path, "set", fmt.Sprintf(body, "others")).do(t, base)
		got.problem(t, http.StatusForbidden, run.CodeForbidden)
		require.Empty(t, got.header.Get("Drover-Executor-State"))
	}
}

func TestServer_claims_of_bound_tokens(t *testing.T) {
	t.Parallel()
	keys, err := tokens.ParseKeys(tokens.NewKey())
	require.NoError(t, err)
	key := run.Key{Run: runID, Attempt: 1, Dispatch: 1}
	body := func(executor, claimProof string) string {
		return fmt.Sprintf(`{"executor": %q, "journal_id": "j", "key": {"run": %q, "task": 0, "attempt": 1, "dispatch": 1}, "claim_proof": %q}`, executor, runID, claimProof)
	}
	received := make(chan run.ClaimRequest, 1)
	executorAPI := &runtest.ExecutorAPI{ClaimFunc: func(_ context.Context, r run.ClaimRequest) (run.Definition, error) {
		received <- r
		return run.Definition{}, nil
	}}
	deps := gateway.Deps{ExecutorAPI: executorAPI, Auth: boundTokens(t)}
	without := serve(t, deps, gateway.Options{})
	deps.Keys = keys
	with := serve(t, deps, gateway.Options{})

	post("/claim", "seven", body("host-7", "")).do(t, without)
	require.Equal(t, run.ClaimRequest{Key: key, Executor: "host-7", JournalID: "j", Pool: "linux"}, <-received)
	post("/claim", "free", body("host-7", "")).do(t, with)
	require.Equal(t, run.ClaimRequest{Key: key, Executor: "host-7", JournalID: "j"}, <-received, "a token that is not bound is trusted")
	post("/claim", "seven", body("host-7", "")).do(t, with)
	require.True(t, (<-received).ReclaimOnly, "without a claim proof the executor may only reclaim")
	post("/claim", "seven", body("host-7", keys.ClaimProof("executor:host-7", key))).do(t, with)
	require.False(t, (<-received).ReclaimOnly)
	post("/claim", "set", body("pod-1", keys.ClaimProof("set:pods", key))).do(t, with)
	require.False(t, (<-received).ReclaimOnly)

	stolen := post("/claim", "seven", body("host-7", keys.ClaimProof("set:pods", key))).do(t, with)
	stolen.problem(t, http.StatusForbidden, run.CodeForbidden)
	require.Empty(t, stolen.header.Get("Drover-Executor-State"))
	post("/claim", "set", body("pod-1", "made-up")).do(t, with).problem(t, http.StatusForbidden, run.CodeForbidden)
}

// A heartbeat replaces a short-lived token after half of its lifetime, and not
// before.
func TestServer_renews_short_lived_tokens(t *testing.T) {
	t.Parallel()
	keys, err := tokens.ParseKeys(tokens.NewKey())
	require.NoError(t, err)
	auth := tokens.WithShortLived(keys, boundTokens(t))
	removed := false
	var desired run.DesiredState
	executorAPI := &runtest.ExecutorAPI{
		RegisterFunc: func(context.Context, run.Executor) (run.DesiredState, error) { return desired, nil },
		RenewFunc: func(_ context.Context, r run.Renewal) (run.DesiredState, error) {
			if removed {
				return run.DesiredState{}, run.Errorf(run.CodeForbidden, "executor removed")
			}
			w := desired
			w.Gone = w.Gone && r.Expiring
			return w, nil
		},
	}
	base := serve(t, gateway.Deps{ExecutorAPI: executorAPI, Auth: auth, Keys: keys}, gateway.Options{})
	binding := tokens.Binding{Executor: "host-7", Pool: "linux"}
	shortLived := func(age time.Duration) string {
		token, err := keys.IssueShortLived(binding, time.Now().Add(-age), time.Hour)
		require.NoError(t, err)
		return token
	}
	calls := executorCalls("host-7")
	const header = "Drover-Token"
	require.Empty(t, post("/renew", shortLived(20*time.Minute), calls["/renew"]).do(t, base).header.Get(header))
	require.Empty(t, post("/renew", "seven", calls["/renew"]).do(t, base).header.Get(header), "the token is in the token file")
	require.Empty(t, post("/register", shortLived(40*time.Minute), calls["/register"]).do(t, base).header.Get(header))
	got := post("/renew", shortLived(40*time.Minute), calls["/renew"]).do(t, base)
	require.Less(t, got.status, 300)
	p, ok := auth.Authenticate(got.header.Get(header))
	require.True(t, ok)
	require.Equal(t, binding, p.Binding)
	require.WithinDuration(t, time.Now().Add(time.Hour), p.Expires, time.Minute)
	require.Equal(t, time.Hour, p.Expires.Sub(p.IssuedAt))
	require.Equal(t, http.StatusUnauthorized, post("/renew", shortLived(2*time.Hour), calls["/renew"]).do(t, base).status)
	require.Empty(t, post("/renew", shortLived(40*time.Minute), executorCalls("host-8")["/renew"]).do(t, base).header.Get(header))

	// The new token of a fleet's executor names its instance. There is no new token after the instance is gone.
	instance := tokens.Binding{Executor: "host-7", Pool: "linux", Fleet: "farm", Instance: "vm-1"}
	renewed := func() string {
		return post("/renew", shortLived(40*time.Minute), calls["/renew"]).do(t, base).header.Get(header)
	}
	desired = run.DesiredState{Fleet: "farm", Instance: "vm-1"}
	for _, binding = range []tokens.Binding{instance, {Executor: "host-7", Pool: "linux"}} { // the second is a token of an older version
		p, ok = auth.Authenticate(renewed())
		require.True(t, ok)
		require.Equal(t, instance, p.Binding)
		desired.Gone = true
		require.Empty(t, renewed(), "the instance is gone")
		desired.Gone = false
	}
	binding = instance
	for _, desired = range []run.DesiredState{{}, {Fleet: "farm", Instance: "vm-2"}, {Fleet: "other", Instance: "vm-1"}} {
		require.Empty(t, renewed(), "the records have another instance for the executor")
	}
	desired = run.DesiredState{Fleet: "farm", Instance: "vm-1"}
	require.NotEmpty(t, renewed())
	removed = true
	require.Empty(t, post("/renew", shortLived(40*time.Minute), calls["/renew"]).do(t, base).header.Get(header), "the token must not outlive the instance")
}

// The token of an executor proves its fleet and instance. Labels count only for a
// token that is trusted with all executors.
func TestServer_membership_comes_from_the_token(t *testing.T) {
	t.Parallel()
	keys, err := tokens.ParseKeys(tokens.NewKey())
	require.NoError(t, err)
	binding := tokens.Binding{Executor: "host-7", Pool: "linux", Fleet: "farm", Instance: "vm-1"}
	shortLived, err := keys.IssueShortLived(binding, time.Now(), time.Hour)
	require.NoError(t, err)
	list, err := tokens.NewList([]tokens.Token{
		{Name: "free", Hash: tokens.Hash("free"), Scopes: []tokens.Scope{tokens.Executor}},
		{Name: "bound", Hash: tokens.Hash("bound"), Scopes: []tokens.Scope{tokens.Executor}, Binding: tokens.Binding{Executor: "host-*", Pool: "linux"}},
		{
			Name: "agents", Hash: tokens.Hash("agents"), Scopes: []tokens.Scope{tokens.Executor},
			Binding: tokens.Binding{Executor: "host-*", Pool: "linux", Fleet: "farm"},
		},
	})
	require.NoError(t, err)
	registered := make(chan run.Executor, 1)
	executorAPI := &runtest.ExecutorAPI{RegisterFunc: func(_ context.Context, e run.Executor) (run.DesiredState, error) {
		registered <- e
		return run.DesiredState{}, nil
	}}
	base := serve(t, gateway.Deps{ExecutorAPI: executorAPI, Auth: tokens.WithShortLived(keys, list), Keys: keys}, gateway.Options{})
	open := serve(t, gateway.Deps{ExecutorAPI: executorAPI}, gateway.Options{})
	none, other := `{}`, `{"drover-fleet": "other", "drover-instance": "vm-9"}`
	for _, tt := range []struct{ server, token, labels, fleet, instance string }{
		{base, shortLived, none, "farm", "vm-1"},
		{base, shortLived, other, "farm", "vm-1"},
		{base, "bound", none, "", ""},
		{base, "bound", other, "", ""},
		{base, "agents", other, "farm", "vm-9"},
		{base, "free", none, "", ""},
		{base, "free", other, "other", "vm-9"},
		{open, "", other, "other", "vm-9"},
	} {
		body := fmt.Sprintf(`{"id": "host-7", "journal_id": "j", "pool": "linux", "driver": "shell", "slots": 1, "labels": %s}`, tt.labels)
		got := post("/register", tt.token, body).do(t, tt.server)
		require.Equal(t, http.StatusOK, got.status, got.body)
		e := <-registered
		require.Equal(t, []string{tt.fleet, tt.instance}, []string{e.Fleet, e.Instance}, "%s %s", tt.token, tt.labels)
	}
	body := `{"id": "host-7", "journal_id": "j", "pool": "linux", "driver": "shell", "slots": 1}`
	post("/register", "agents", body).do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
}
