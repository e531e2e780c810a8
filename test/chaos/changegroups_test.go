package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// TestChangeGroups_chaos submits, starts, stops, cancels, restarts and
// terminates runs of change groups at random, while it kills two gateways and two
// control workers. Tasks of the runs take slots too. No limit is ever exceeded, no slot leaks,
// and every run ends.
func TestChangeGroups_chaos(t *testing.T) {
	t.Parallel()
	span := time.Minute
	switch {
	case harness.Soak():
		span = 10 * time.Minute
	case testing.Short():
		span = 15 * time.Second
	}
	parts := harness.StartPairs(t, "32", testenv.RequirePostgres(t))
	c := harness.NewClientPool(t, parts.Client, parts.Second())
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*span+5*time.Minute, errors.New("the test took too long")) //nolint:forbidigo // the whole test, which prints its state then
	defer cancel()
	temporal, err := client.Dial(client.Options{HostPort: parts.Temporal(), Namespace: contract.Namespace})
	require.NoError(t, err)
	defer temporal.Close()

	m := &chaosClient{ClientPool: c, temporal: temporal, limits: newLimits(), calls: map[string]int{}}
	for name, n := range map[string]int{"one": 1, "two": 2, "changed": 5, "policed": 2, "lock": 1, "pair": 2} {
		require.NoError(t, m.limit(ctx, name, n, "queue"))
	}
	during, end := context.WithTimeoutCause(ctx, span, errChaosOver) //nolint:forbidigo // the length of the chaos
	defer end()
	var all sync.WaitGroup
	faults := make(chan error, 7)
	for worker := range 6 {
		all.Go(func() {
			var err error
			for n := 0; during.Err() == nil && err == nil; n++ {
				err = m.doRandomCall(ctx, fmt.Sprintf("%d-%d", worker, n))
			}
			faults <- err
		})
	}
	all.Go(func() { faults <- m.changeLimits(ctx, during) })
	kills := killAtRandom(during, t, parts, harness.Gateway, harness.Gateway2, harness.Control, harness.Control2)
	all.Wait()
	close(faults)
	for err := range faults {
		require.NoError(t, err)
	}
	c.AwaitNoOpenRuns(ctx, m.resolveWaiting)

	runs := c.List(ctx, "")
	t.Logf("%d runs, %d kills, calls by status: %v", len(runs), kills, m.calls)
	var page api.ChangeGroupPage
	c.Read(ctx, "/changegroups", &page)
	require.Len(t, page.Changegroups, 7)
	for _, g := range page.Changegroups {
		require.Empty(t, g.Running, "%s: a slot leaked", g.Name)
		require.Empty(t, g.Queued, "%s: a run is still queued", g.Name)
		require.Empty(t, g.HoldingTasks, "%s: a slot of a task leaked", g.Name)
		require.Empty(t, g.WaitingTasks, "%s: a task still waits", g.Name)
	}
	checkTasks(t, runs, checkGroups(t, c, ctx, runs, m.limits))
	// The workflows of ended runs are closed.
	testenv.Await(t, func() (bool, string) {
		open, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: contract.Namespace, Query: "WorkflowType = '" + contract.RunWorkflow + "' AND ExecutionStatus = 'Running'",
		})
		return err == nil && open.GetCount() == 0, fmt.Sprintf("%d workflows are open, %v", open.GetCount(), err)
	})
}

var errChaosOver = errors.New("the time of the chaos is over")

// checkGroups checks from the events, which it returns, that no limit was exceeded.
func checkGroups(t *testing.T, c *harness.ClientPool, ctx context.Context, runs []api.Run, l *limits) []api.Event {
	t.Helper()
	groups, created, open := map[string][]string{}, map[string]time.Time{}, map[string]bool{}
	for _, r := range runs {
		groups[r.ID], created[r.ID], open[r.ID] = r.Changegroups, r.CreatedAt, true
	}
	events := c.Events(ctx, func(e api.Event) bool {
		if run.Phase(e.Phase).Final() && e.Type == "run" {
			delete(open, e.Run)
		}
		return len(open) == 0
	})
	harness.CheckOrder(t, events)
	running, most := map[string]map[string]time.Time{}, map[string]int{} // when the runs of each group began
	for _, e := range events {
		for _, g := range groups[e.Run] {
			if running[g] == nil {
				running[g] = map[string]time.Time{}
			}
			switch {
			case e.Phase == "running" && running[g][e.Run].IsZero():
				running[g][e.Run] = e.Time
				most[g] = max(most[g], len(running[g]))
				limit := l.between(g, created[e.Run], e.Time)
				require.LessOrEqual(t, len(running[g]), limit, "change group %s with event %+v; running since: %v; limits: %v", g, e, running[g], l.set[g])
			case run.Phase(e.Phase).Final():
				delete(running[g], e.Run)
			}
		}
	}
	t.Logf("maximum of concurrent runs by group: %v", most)
	return events
}

// unitsAnnotation is the annotation with the slots of the groups lock and pair that the task
// b of a run takes.
const unitsAnnotation = "units"

// checkTasks checks from the events that tasks which are queued or run hold no more slots than
// there are. The limits of their groups never change.
func checkTasks(t *testing.T, runs []api.Run, events []api.Event) {
	t.Helper()
	needs := map[string]map[string]int{}
	for _, r := range runs {
		var lock, pair int
		_, err := fmt.Sscan(r.Annotations[unitsAnnotation], &lock, &pair)
		require.NoError(t, err)
		needs[r.ID] = map[string]int{"lock": lock, "pair": pair}
	}
	holds, taken, most := map[string]bool{}, map[string]int{}, map[string]int{}
	hold := func(id string, is bool, e api.Event) {
		if holds[id] == is {
			return
		}
		holds[id] = is
		for group, limit := range map[string]int{"lock": 1, "pair": 2} {
			if !is {
				taken[group] -= needs[id][group]
				continue
			}
			taken[group] += needs[id][group]
			most[group] = max(most[group], taken[group])
			require.LessOrEqual(t, taken[group], limit, "slots of %s with event %+v", group, e)
		}
	}
	for _, e := range events {
		switch {
		case e.Type == "run" && run.Phase(e.Phase).Final():
			hold(e.Run, false, e)
		case e.Type == "task" && e.Task == "b" && (run.Status(e.Status) == run.StatusQueued || run.Status(e.Status) == run.StatusRunning):
			hold(e.Run, true, e)
		case e.Type == "task" && e.Task == "b" && run.Status(e.Status).Final():
			hold(e.Run, false, e)
		}
	}
	t.Logf("maximum of slots that tasks held: %v", most)
}

// limits records which limits of change groups were in force when.
type limits struct {
	mu  sync.Mutex
	set map[string][]setLimit
}

// setLimit is a limit of a change group. It took effect between requested and
// done, and lost effect before the done of the next one.
type setLimit struct {
	requested, done time.Time
	n               int
}

func (s setLimit) String() string {
	return fmt.Sprintf("%d since %s to %s", s.n, s.requested.UTC().Format(time.RFC3339Nano), s.done.UTC().Format(time.RFC3339Nano))
}

func newLimits() *limits { return &limits{set: map[string][]setLimit{}} }

func (l *limits) add(group string, s setLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set[group] = append(l.set[group], s)
}

// between returns the greatest limit that may have been in force between the creation
// of a run and the event that it runs. A new run can get its slots when it is created,
// runs once its workflow has begun, and keeps them if the limit is lowered meanwhile.
// The event's time is the begin of its transaction, which may have waited for another
// transaction: as long as the slowest change of a limit, and some seconds.
func (l *limits) between(group string, created, t time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	waited := 5 * time.Second
	for _, all := range l.set {
		for _, s := range all {
			waited = max(waited, 5*time.Second+s.done.Sub(s.requested))
		}
	}
	greatest := 0
	for i, s := range l.set[group] {
		ended := i+1 < len(l.set[group]) && l.set[group][i+1].done.Before(created)
		if !ended && s.requested.Before(t.Add(waited)) {
			greatest = max(greatest, s.n)
		}
	}
	if greatest == 0 {
		return math.MaxInt // the group has no limit
	}
	return greatest
}

// chaosClient makes random calls on runs of change groups.
type chaosClient struct {
	*harness.ClientPool
	temporal client.Client
	limits   *limits

	mu    sync.Mutex
	ids   []string
	calls map[string]int
}

// limit sets the limit and the on_busy policy of a change group.
func (m *chaosClient) limit(ctx context.Context, group string, n int, policy string) error {
	requested := time.Now()
	status, text := m.Call(ctx, http.MethodPut, "/changegroups/"+group, "", fmt.Sprintf(`{"max_running": %d, "on_busy": %q}`, n, policy))
	if status != http.StatusOK {
		return fmt.Errorf("set the limit of %s: status %d: %s", group, status, text)
	}
	m.limits.add(group, setLimit{requested: requested, done: time.Now(), n: n})
	return nil
}

// changeLimits sets new random limits and policies every 2 to 8 s until during ends.
// The limit of the group policed never changes.
func (m *chaosClient) changeLimits(ctx, during context.Context) error {
	for {
		select {
		case <-during.Done():
			return m.limit(ctx, "policed", 2, "queue")
		case <-time.After(time.Duration(2000+rand.IntN(6000)) * time.Millisecond): //nolint:forbidigo // the interval between two changes; no condition depends on it
		}
		err := m.limit(ctx, "changed", 1+rand.IntN(6), "queue")
		if err == nil {
			err = m.limit(ctx, "policed", 2, []string{"queue", "stop_running", "cancel_queued", "reject"}[rand.IntN(4)])
		}
		if err != nil {
			return err
		}
	}
}

func (m *chaosClient) pickRun() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ids) == 0 {
		return ""
	}
	// One of the newest 30 runs, most of which are not final yet.
	return m.ids[len(m.ids)-1-rand.IntN(min(len(m.ids), 30))]
}

func (m *chaosClient) doRandomCall(ctx context.Context, key string) error {
	id := m.pickRun()
	name := []string{"create", "create", "create", "stop", "start", "start", "cancel", "restart", "terminate", "approve"}[rand.IntN(10)]
	if id == "" {
		name = "create"
	}
	waiting, err := m.waiting(ctx)
	if err != nil {
		return err
	}
	if waiting > maxWaiting {
		name = []string{"stop", "start", "cancel", "terminate", "approve"}[rand.IntN(5)]
	}
	var status int
	var text string
	switch name {
	case "create":
		status, text = m.Call(ctx, http.MethodPost, "/runs", key, m.spec())
	case "restart":
		body := []string{`{"from": "start"}`, `{"from": "failed"}`, `{"tasks": ["b"]}`}[rand.IntN(3)]
		status, text = m.Call(ctx, http.MethodPost, "/runs/"+id+"/restart", key, body)
	case "terminate":
		status = http.StatusOK
		if m.temporal.TerminateWorkflow(ctx, contract.RunWorkflowID(run.ID(id)), "", "by chance") != nil {
			status = http.StatusNotFound
		}
	case "approve":
		status, text = m.Call(ctx, http.MethodPost, "/runs/"+id+"/tasks/b/approve", "", "{}")
	default:
		status, text = m.Call(ctx, http.MethodPost, "/runs/"+id+"/"+name, "", "{}")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[fmt.Sprintf("%s %d", name, status)]++
	switch status {
	case http.StatusOK, http.StatusNotFound, http.StatusConflict:
		return nil
	case http.StatusCreated:
	default:
		return fmt.Errorf("%s: status %d: %s", name, status, text)
	}
	var r api.Run
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	m.ids = append(m.ids, r.ID)
	return nil
}

// maxWaiting bounds the queue that is left when the chaos ends: the group with
// one slot admits a few runs a second.
const maxWaiting = 200

// waiting returns the number of runs that wait for the group with one slot.
func (m *chaosClient) waiting(ctx context.Context) (int, error) {
	status, text := m.Call(ctx, http.MethodGet, "/changegroups/one", "", "")
	if status != http.StatusOK {
		return 0, fmt.Errorf("get the change group: status %d: %s", status, text)
	}
	var group api.ChangeGroup
	if err := json.Unmarshal([]byte(text), &group); err != nil {
		return 0, err
	}
	return len(group.Queued), nil
}

func (m *chaosClient) spec() string {
	groups := []string{"one", "two", "changed", "policed", "free"}
	rand.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	admission := "auto"
	if rand.IntN(4) == 0 {
		admission = "manual"
	}
	var ofTask []string // all or none of them, as of the run
	lock, pair := rand.IntN(2), rand.IntN(3)
	for group, units := range map[string]int{"lock": lock, "pair": pair} {
		if units > 0 {
			ofTask = append(ofTask, fmt.Sprintf(`{"name": %q, "units": %d}`, group, units))
		}
	}
	return fmt.Sprintf(`{"name": "chaos", "group": "/test/chaos", "changegroups": ["%s"], "priority": %d, "admission": %q, "annotations": {%q: "%d %d"},
		"tasks": {"a": {"steps": [{"run": "sleep 0.%d"}]}, "b": {"depends": ["a"], "approval": %t, "changegroups": [%s], "steps": [{"run": "true"}]}}}`,
		strings.Join(groups[:1+rand.IntN(3)], `", "`), 1+rand.IntN(5), admission, unitsAnnotation, lock, pair, rand.IntN(6), rand.IntN(6) == 0, strings.Join(ofTask, ", "))
}

// resolveWaiting starts or cancels the runs of manual admission that are queued, and
// approves or stops the runs that wait for an approval.
func (m *chaosClient) resolveWaiting(ctx context.Context, open []api.Run) {
	for _, r := range open {
		switch {
		case r.Phase == api.PhaseQueued && r.Admission == "manual":
			m.Call(ctx, http.MethodPost, "/runs/"+r.ID+"/"+[]string{"start", "cancel"}[rand.IntN(2)], "", "{}")
		case r.TaskCounts["waiting_approval"] > 0:
			m.Call(ctx, http.MethodPost, "/runs/"+r.ID+"/"+[]string{"tasks/b/approve", "stop"}[rand.IntN(2)], "", "{}")
		}
	}
}

// killAtRandom kills random parts until ctx ends, and starts each again at once.
// It returns the number of kills.
func killAtRandom(ctx context.Context, t *testing.T, parts *harness.Parts, of ...harness.Part) int {
	t.Helper()
	kills := 0
	for {
		select {
		case <-ctx.Done():
			return kills
		case <-time.After(time.Duration(1000+rand.IntN(2500)) * time.Millisecond): //nolint:forbidigo // the interval between two faults; no condition depends on it
		}
		part := of[rand.IntN(len(of))]
		parts.Processes[part].Kill()
		parts.Launch(part).AwaitReady()
		kills++
	}
}
