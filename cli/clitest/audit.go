package clitest

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/drover-run/drover/api"
)

// serveAudit serves an audit log of four records. Its only filter is the result.
func serveAudit(mux *http.ServeMux) {
	records := []api.AuditRecord{ // oldest first
		{
			ID: "01kg9x4q00000000000000000a", Time: Start(), Subject: "ana", Token: "ana", Action: "restartRun",
			Resource: api.AuditResource{Kind: "run", ID: "run-1"}, Created: "run-2", Group: "/project/42",
			Result: api.AuditResultSuccess, Status: http.StatusCreated, RequestID: "r1", Remote: "192.0.2.7", Count: 1,
		},
		{
			ID: "01kg9x4q00000000000000000b", Time: Start().Add(time.Minute), Action: "listRuns", Resource: api.AuditResource{Kind: "run"},
			Result: api.AuditResultRefused, Status: http.StatusUnauthorized, Code: "unauthenticated", Remote: "198.51.100.1",
			Count: 4_711, Until: Start().Add(2 * time.Minute),
		},
		{
			ID: "01kg9x4q00000000000000000c", Time: Start().Add(3 * time.Minute), Subject: "ben", Token: "ben", Action: "approveTask",
			Resource: api.AuditResource{Kind: "run", ID: "run-2", Task: "deploy"}, Group: "/project/42",
			Result: api.AuditResultUnknown, RequestID: "r3", Remote: "192.0.2.8", Count: 1,
		},
		{
			ID: "01kg9x4q00000000000000000d", Time: Start().Add(4 * time.Minute), Subject: "ana", Token: "ana", Action: "putRoleGrants",
			Resource: api.AuditResource{Kind: "rolegrant", ID: "web"}, Details: `[{"groups":["/project/42/**"],"members":"web","role":"operator"},{"groups":["/**"],"role":"viewer","subject":"*"}]`,
			Result: api.AuditResultSuccess, Status: http.StatusOK, RequestID: "r4", Remote: "192.0.2.7", Count: 1,
		},
	}
	matching := func(r *http.Request) []api.AuditRecord {
		out := []api.AuditRecord{}
		for _, x := range records {
			if want := r.URL.Query().Get("result"); want == "" || want == string(x.Result) {
				out = append(out, x)
			}
		}
		return out
	}
	mux.HandleFunc("GET /api/v1/audit", func(w http.ResponseWriter, r *http.Request) {
		all, page := matching(r), api.AuditPage{}
		if r.URL.Query().Get("order") != "asc" {
			for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
				all[i], all[j] = all[j], all[i]
			}
		}
		switch { // two pages, after an empty one for a subject
		case r.URL.Query().Get("subject") != "" && r.URL.Query().Get("cursor") == "":
			all, page.NextCursor = all[:0], "further"
		case r.URL.Query().Get("cursor") == "rest":
			all = all[2:]
		case len(all) > 2:
			all, page.NextCursor = all[:2], "rest"
		}
		page.Records = all
		answer(w, http.StatusOK, page)
	})
	mux.HandleFunc("GET /api/v1/audit/export", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, x := range matching(r) {
			_ = json.NewEncoder(w).Encode(x)
		}
	})
}
