package clitest

import (
	"net/http"
	"time"

	"github.com/drover-run/drover/api"
)

// serveRetention serves a retention policy for runs: some runs were removed and
// some are due.
func (g *Gateway) serveRetention(mux *http.ServeMux) {
	policy := api.RetentionPolicy{
		Interval: "1h0m0s", PerSecond: 100, RunsMaxAge: "720h0m0s", RunsKeep: 10, WorkspaceMaxAge: "72h0m0s", CacheMaxAge: "336h0m0s",
		CacheTotalBytes: 1 << 30,
	}
	mux.HandleFunc("GET /api/v1/retention", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, api.Retention{
			Running: true, Policy: policy, Since: Start().Add(-24 * time.Hour), NextLookAt: Start().Add(time.Hour),
			Removed: []api.RetentionSum{
				{Kind: "logs"},
				{Kind: "workspaces", Count: 7, Bytes: 7_000},
				{Kind: "artifacts", Count: 1, Bytes: 100},
				{Kind: "caches"},
				{Kind: "runs", Count: 3},
				{Kind: "events"},
			},
		})
	})
	mux.HandleFunc("GET /api/v1/retention/preview", func(w http.ResponseWriter, r *http.Request) {
		policy, q := policy, r.URL.Query()
		old := Start().Add(-1000 * time.Hour)
		due := []api.RetentionDue{
			{Kind: "logs"},
			{Kind: "workspaces", Count: 1, Bytes: 12, Oldest: old, First: []api.RetentionItem{{Run: "run-1", Task: "build", Bytes: 12, Since: old}}},
			{Kind: "artifacts", Count: 1, Bytes: 9, Oldest: old, First: []api.RetentionItem{{Run: "run-1", Task: "test", Name: "report", Bytes: 9, Since: old}}},
			{Kind: "caches", Count: 1, Bytes: 5, Oldest: old, First: []api.RetentionItem{{Scope: "/a/b", Name: "go-1", Bytes: 5, Since: old}}},
			{Kind: "runs", Count: 2_000, Oldest: old, First: []api.RetentionItem{{Run: "run-1", Since: old}}},
			{Kind: "events"},
		}
		if age := q.Get("logs_max_age"); age != "" {
			policy.LogsMaxAge = age
			due[0] = api.RetentionDue{Kind: "logs", Count: 1, Bytes: 300, Oldest: old, First: []api.RetentionItem{{Run: "run-1", Bytes: 300, Since: old}}}
		}
		if q.Get("runs_keep") == "0" {
			policy.RunsKeep = 0
		}
		for i := range due {
			if q.Get("limit") == "0" || due[i].First == nil {
				due[i].First = []api.RetentionItem{}
			}
		}
		answer(w, http.StatusOK, api.RetentionPreview{Policy: policy, Due: due})
	})
}
