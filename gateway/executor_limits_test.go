package gateway_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// Strings of executors that the records store are bounded.
func TestServer_limits_executor_fields(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{ExecutorAPI: &runtest.ExecutorAPI{}}, gateway.Options{}) // no call reaches the executor API
	long := strings.Repeat("x", run.MaxExpandedName+1)
	many := map[string]string{}
	for n := range run.MaxPoolLabels + 1 {
		many[strconv.Itoa(n)] = "v"
	}
	register := func(change func(*api.Registration)) any {
		r := api.Registration{ID: "host-7", JournalID: "j", Pool: "linux", Driver: "shell", Slots: 1}
		change(&r)
		return r
	}
	key := run.Key{Run: runID, Attempt: 1, Dispatch: 1}
	for name, c := range map[string]struct {
		path string
		body any
	}{
		"id":          {"/register", register(func(r *api.Registration) { r.ID = long })},
		"journal":     {"/register", register(func(r *api.Registration) { r.JournalID = long })},
		"version":     {"/register", register(func(r *api.Registration) { r.Version = long })},
		"set":         {"/register", register(func(r *api.Registration) { r.Set = long })},
		"labels":      {"/register", register(func(r *api.Registration) { r.Labels = many })},
		"label name":  {"/register", register(func(r *api.Registration) { r.Labels = map[string]string{long: "v"} })},
		"label value": {"/register", register(func(r *api.Registration) { r.Labels = map[string]string{"k": strings.Repeat("x", run.MaxLabelBytes+1)} })},
		"claim":       {"/claim", api.ClaimRequest{Executor: "host-7", JournalID: long, Key: key}},
		"claim's set": {"/claim", api.ClaimRequest{Executor: "host-7", JournalID: "j", Set: long, Key: key}},
		"states":      {"/claim-states", api.ClaimStatesRequest{Executor: "host-7", Keys: make([]run.Key, run.MaxClaimKeys+1)}},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(c.body)
			require.NoError(t, err)
			post(c.path, "", string(body)).do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
		})
	}
}
