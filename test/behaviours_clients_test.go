package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// The sizes of the behaviours with many clients.
const (
	clients = 50
	limit   = 3
)

// tokensOfFiftyClients checks update tokens with 50 external schedulers that
// keep a limit of their own. Each lists the runs that are running, and starts its
// run with the token of that list. Each run starts once, and the number of
// running runs never exceeds the limit.
func tokensOfFiftyClients(t *testing.T, dev *harness.Dev) {
	client := harness.NewClient(t, dev.Server, dev.Token)
	const group, slots = "/behaviours/18_fifty", "18_fifty"
	ids := make([]string, clients)
	for i := range ids {
		ids[i] = client.Submit(fmt.Sprintf("name: one of fifty\ngroup: %s\nadmission: manual\nchangegroups: [%s]\ntasks: {t: {steps: [{run: 'true'}]}}\n", group, slots)).ID
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	faults := make(chan error, clients)
	for _, id := range ids {
		all.Go(func() {
			counts, err := startWithToken(t, dev, slots, id)
			mu.Lock()
			defer mu.Unlock()
			for answer, n := range counts {
				answers[answer] += n
			}
			faults <- err
		})
	}
	all.Wait()
	close(faults)
	for err := range faults {
		require.NoError(t, err)
	}
	t.Logf("answers to start: %v", answers)
	require.Equal(t, clients, answers["200"], "each run was started once")
	for _, id := range ids {
		require.Equal(t, api.ResultSuccess, client.AwaitPhase(id, api.PhaseFinished).Result)
	}
	checkLimit(t, dev, group, clients)
}

// startWithToken starts a run as soon as fewer runs than the limit are running.
// It returns how often the start calls got each status.
func startWithToken(t *testing.T, dev *harness.Dev, slots, id string) (map[string]int, error) {
	client := harness.NewClient(t, dev.Server, dev.Token)
	answers := map[string]int{}
	patience := testenv.Patience(t)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		status, body, err := client.Do(t.Context(), http.MethodGet, "/api/v1/runs?phase=running&changegroup="+slots+"&token_for="+slots, "", "")
		if err != nil || status != http.StatusOK {
			return answers, fmt.Errorf("list running runs: %d %s: %w", status, body, err)
		}
		var page api.RunPage
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			return answers, err
		}
		if len(page.Runs) >= limit {
			select { // a scheduler asks again after a while; 50 that never wait would starve the gateway
			case <-time.After(100 * time.Millisecond): //nolint:forbidigo // see above
			case <-t.Context().Done():
			}
			continue
		}
		status, body, err = client.Do(t.Context(), http.MethodPost, "/api/v1/runs/"+id+"/start", "application/json",
			fmt.Sprintf(`{"changegroup_token": %q}`, page.ChangegroupToken))
		if err != nil {
			return answers, err
		}
		answers[fmt.Sprint(status)]++
		switch {
		case status == http.StatusOK:
			return answers, nil
		case status != http.StatusConflict || !strings.Contains(body, "changegroup_conflict"):
			return answers, fmt.Errorf("start answered %d: %s", status, body)
		}
	}
	return answers, fmt.Errorf("run %s was not started within %s", id, patience)
}

// limitWithFiftyClients checks the limits of change groups. 50 clients submit
// runs at once, half of them to two groups.
func limitWithFiftyClients(t *testing.T, dev *harness.Dev) {
	client := harness.NewClient(t, dev.Server, dev.Token)
	const group = "/behaviours/19_fifty"
	for _, name := range []string{"19_fifty", "19_both"} {
		status, body, err := client.Do(t.Context(), http.MethodPut, "/api/v1/changegroups/"+name, "application/json", fmt.Sprintf(`{"max_running": %d}`, limit))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, body)
	}
	var all sync.WaitGroup
	faults := make(chan error, clients)
	for i := range clients {
		all.Go(func() {
			groups := []string{"[19_fifty]", "[19_fifty, 19_both]"}[i%2]
			status, body, err := harness.NewClient(t, dev.Server, dev.Token).Do(t.Context(), http.MethodPost, "/api/v1/runs", "application/yaml",
				fmt.Sprintf("name: one of fifty\ngroup: %s\npriority: %d\nchangegroups: %s\ntasks: {t: {steps: [{run: 'true'}]}}\n", group, 1+i%5, groups))
			if err == nil && status != http.StatusCreated {
				err = fmt.Errorf("answered %d: %s", status, body)
			}
			faults <- err
		})
	}
	all.Wait()
	close(faults)
	for err := range faults {
		require.NoError(t, err)
	}
	checkLimit(t, dev, group, clients)
}

// checkLimit reads the events of a group until the given number of runs has
// finished, and checks that the running runs never exceeded the limit.
func checkLimit(t *testing.T, dev *harness.Dev, group string, runs int) {
	t.Helper()
	running, finished := map[string]bool{}, 0
	harness.NewClientPool(t, harness.NewClient(t, dev.Server, dev.Token)).Follow(t.Context(), "group="+group, func(e api.Event) bool {
		if e.Type != "run" {
			return false
		}
		switch e.Phase { //nolint:exhaustive // the others hold no slot
		case api.PhaseRunning:
			running[e.Run] = true
		case api.PhaseFinished:
			delete(running, e.Run)
			finished++
		}
		require.LessOrEqual(t, len(running), limit, "at event %d", e.Number)
		return finished == runs
	})
}

// eventsAgreeWithReads reads the run of each event as soon as the event arrives.
// The run is never behind the state that the event reported.
func eventsAgreeWithReads(t *testing.T, dev *harness.Dev) {
	client := harness.NewClient(t, dev.Server, dev.Token)
	const group, runs = "/behaviours/20_agree", 10
	var all sync.WaitGroup
	for range runs {
		all.Go(func() {
			_, _, _ = client.Do(t.Context(), http.MethodPost, "/api/v1/runs", "application/yaml", "name: agree\ngroup: "+group+
				"\ntasks: {a: {steps: [{run: 'false'}]}, b: {depends: [{task: a, on: [failure]}], steps: [{run: 'true'}]}, c: {depends: [a], steps: [{run: 'true'}]}}\n")
		})
	}
	finished := 0
	rank := map[string]int{"queued": 1, "running": 2, "finished": 3, "success": 3, "failed": 3, "skipped": 3}
	harness.NewClientPool(t, client).Follow(t.Context(), "group="+group, func(e api.Event) bool {
		r := client.Get(e.Run)
		if e.Type == "task" {
			require.GreaterOrEqual(t, rank[string(r.Tasks[e.Task].Status)], rank[string(e.Status)], "task %s at event %d", e.Task, e.Number)
			return false
		}
		require.GreaterOrEqual(t, rank[string(r.Phase)], rank[string(e.Phase)], "at event %d", e.Number)
		if e.Result != api.ResultUnknown {
			require.Equal(t, e.Result, r.Result, "at event %d", e.Number)
		}
		if e.Phase == api.PhaseFinished {
			finished++
		}
		return finished == runs
	})
	all.Wait()
}
