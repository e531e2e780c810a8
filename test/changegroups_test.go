package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// TestChangeGroups_chaos submits, starts, stops, cancels, restarts and
// terminates runs of change groups at random, on two gateways and two control
// workers that are killed all the while: no limit is ever exceeded, no slot
// leaks, and every run ends.
func TestChangeGroups_chaos(t *testing.T) {
	t.Parallel()
	span := time.Minute
	switch {
	case soak():
		span = 10 * time.Minute
	case testing.Short():
		span = 15 * time.Second
	}
	parts := harness.StartPairs(t, "32", testenv.RequirePostgres(t))
	c := newCrowd(t, parts.Client, parts.Second())
	limits := map[string]int{"one": 1, "two": 2, "five": 5}
	ctx, cancel := context.WithTimeoutCause(t.Context(), span+5*time.Minute, errors.New("the test took too long"))
	defer cancel()
	for name, n := range limits {
		status, text := c.call(ctx, http.MethodPut, "/changegroups/"+name, "", fmt.Sprintf(`{"max_running": %d}`, n))
		require.Equal(t, http.StatusOK, status, text)
	}
	temporal, err := client.Dial(client.Options{HostPort: parts.Temporal(), Namespace: contract.Namespace})
	require.NoError(t, err)
	defer temporal.Close()

	m := &mayhem{crowd: c, temporal: temporal, groups: []string{"one", "two", "five", "free"}, calls: map[string]int{}}
	during, end := context.WithTimeoutCause(ctx, span, errSpanOver)
	defer end()
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			for n := 0; during.Err() == nil; n++ {
				m.act(ctx, fmt.Sprintf("%d-%d", worker, n))
			}
		})
	}
	kills := killAtRandom(during, t, parts, harness.Gateway, harness.Gateway2, harness.Control, harness.Control2)
	all.Wait()
	m.release(ctx)
	c.settle(ctx)

	runs := c.list(ctx, "")
	t.Logf("%d runs, %d kills, calls by their answer: %v", len(runs), kills, m.calls)
	var page api.ChangeGroupPage
	c.read(ctx, "/changegroups", &page)
	for _, g := range page.Changegroups {
		require.Empty(t, g.Running, "%s: a slot leaked", g.Name)
		require.Empty(t, g.Queued, "%s: somebody waits for ever", g.Name)
	}
	checkGroups(t, c, ctx, runs, limits)
}

var errSpanOver = errors.New("the span is over")

// checkGroups checks by the events that no limit was exceeded.
func checkGroups(t *testing.T, c *crowd, ctx context.Context, runs []api.Run, limits map[string]int) {
	t.Helper()
	groups, open := map[string][]string{}, map[string]bool{}
	for _, r := range runs {
		groups[r.ID], open[r.ID] = r.Changegroups, true
	}
	events := c.events(ctx, func(e api.Event) bool {
		if run.Phase(e.Phase).Final() && e.Type == "run" {
			delete(open, e.Run)
		}
		return len(open) == 0
	})
	checkOrder(t, events)
	running := map[string]map[string]bool{}
	for _, e := range events {
		for _, g := range groups[e.Run] {
			if running[g] == nil {
				running[g] = map[string]bool{}
			}
			switch {
			case e.Phase == "running":
				running[g][e.Run] = true
			case run.Phase(e.Phase).Final():
				delete(running[g], e.Run)
			}
			if limit := limits[g]; limit > 0 {
				require.LessOrEqual(t, len(running[g]), limit, "change group %s at event %d", g, e.Number)
			}
		}
	}
}

// mayhem makes calls at random.
type mayhem struct {
	*crowd
	temporal client.Client
	groups   []string

	mu    sync.Mutex
	ids   []string
	calls map[string]int
}

func (m *mayhem) pick() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ids) == 0 {
		return ""
	}
	// Rather the newer ones, which are not final yet.
	return m.ids[len(m.ids)-1-rand.IntN(min(len(m.ids), 30))]
}

func (m *mayhem) act(ctx context.Context, key string) {
	id := m.pick()
	what := []string{"create", "create", "create", "stop", "start", "start", "cancel", "restart", "terminate"}[rand.IntN(9)]
	if id == "" {
		what = "create"
	}
	var status int
	var text string
	switch what {
	case "create":
		status, text = m.call(ctx, http.MethodPost, "/runs", key, m.spec())
	case "restart":
		status, text = m.call(ctx, http.MethodPost, "/runs/"+id+"/restart", key, `{"from": "start"}`)
	case "terminate":
		status = http.StatusOK
		if m.temporal.TerminateWorkflow(ctx, contract.RunWorkflowID(run.ID(id)), "", "by chance") != nil {
			status = http.StatusNotFound
		}
	default:
		status, text = m.call(ctx, http.MethodPost, "/runs/"+id+"/"+what, "", "{}")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[fmt.Sprintf("%s %d", what, status)]++
	if status != http.StatusCreated {
		require.Contains(m.t, []int{0, http.StatusOK, http.StatusNotFound, http.StatusConflict}, status, text)
		return
	}
	var r api.Run
	require.NoError(m.t, json.Unmarshal([]byte(text), &r))
	m.ids = append(m.ids, r.ID)
}

func (m *mayhem) spec() string {
	groups := slices.Clone(m.groups)
	rand.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	admission := "auto"
	if rand.IntN(4) == 0 {
		admission = "manual"
	}
	return fmt.Sprintf(`{"name": "chaos", "group": "/test/chaos", "changegroups": ["%s"], "priority": %d, "admission": %q,
		"tasks": {"a": {"steps": [{"run": "sleep 0.%d"}]}, "b": {"depends": ["a"], "steps": [{"run": "true"}]}}}`,
		strings.Join(groups[:1+rand.IntN(3)], `", "`), 1+rand.IntN(5), admission, rand.IntN(6))
}

// release starts or cancels what waits to be started.
func (m *mayhem) release(ctx context.Context) {
	for _, r := range m.list(ctx, "phase=queued") {
		if r.Admission == "manual" {
			what := []string{"start", "cancel"}[rand.IntN(2)]
			m.call(ctx, http.MethodPost, "/runs/"+r.ID+"/"+what, "", "{}")
		}
	}
}

// killAtRandom kills one of the parts after the other until ctx ends, starts
// each again, and returns how many it killed.
func killAtRandom(ctx context.Context, t *testing.T, parts *harness.Parts, of ...harness.Part) int {
	t.Helper()
	kills := 0
	for {
		select {
		case <-ctx.Done():
			return kills
		case <-time.After(time.Duration(1000+rand.IntN(2500)) * time.Millisecond): // the time between two faults, not what is waited for
		}
		part := of[rand.IntN(len(of))]
		parts.Processes[part].Kill()
		parts.Launch(part).AwaitReady()
		kills++
	}
}
