package workflows_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

// uncachedVariable names the environment variable that, if set, makes every
// workflow task replay the whole history.
const uncachedVariable = "DROVER_TEST_UNCACHED"

// goneExecutor is an executor that was removed before the tests began.
const goneExecutor = "host-gone"

// farm is a control worker and scripted executors on a real server. All
// scenarios share it.
type farm struct {
	client  client.Client
	mu      sync.Mutex
	records map[run.ID]*fakeRecords
	duties  map[run.ID]map[string][]duty
	calls   map[run.ID]map[string]int
	stopped map[run.Key]bool
	pending sync.WaitGroup
	waiting *waiting
	lines   map[string]*line // by change group
	archive *archive
	herds   map[string]*herd  // by executor
	lost    map[string]string // removed executors, with the reason
}

// duty is what an executor does for one dispatch or one adoption of a task.
type duty func(ctx context.Context, f *farm, in contract.ExecuteInput) (contract.ExecuteResult, error)

// newFarm starts the workers, or skips the test if there is no server.
func newFarm(t testing.TB) *farm {
	t.Helper()
	address := testenv.RequireTemporal(t)
	options := workers.ControlOptions{StopTimeout: time.Second}
	if os.Getenv(uncachedVariable) != "" {
		options.CachedWorkflows = -1
	}
	c, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace, Logger: log.NewStructuredLogger(quiet())})
	require.NoError(t, err)
	f := &farm{
		client: c, records: map[run.ID]*fakeRecords{}, duties: map[run.ID]map[string][]duty{},
		calls: map[run.ID]map[string]int{}, stopped: map[run.Key]bool{}, waiting: newWaiting(), lines: map[string]*line{},
		archive: &archive{runs: 2_500, events: 10}, herds: map[string]*herd{}, lost: map[string]string{goneExecutor: "it burnt"},
	}
	running := []worker.Worker{
		workers.NewControl(c, workers.ControlDeps{Progress: f, Groups: f, Firings: f.waiting, Registry: f, Retention: f.archive}, options),
		workers.NewWait(c, workers.WaitDeps{Webhooks: f.waiting, Runs: f.waiting}, options),
	}
	for _, queue := range []string{contract.PoolQueue("linux"), contract.ExecutorQueue("host-1"), contract.ExecutorQueue("host-2"), contract.SetQueue("blue")} {
		w := worker.New(c, queue, worker.Options{DisableWorkflowWorker: true, DisableRegistrationAliasing: true, MaxConcurrentActivityTaskPollers: 4})
		w.RegisterActivityWithOptions(f.execute, activity.RegisterOptions{Name: contract.ActivityExecuteTask})
		w.RegisterActivityWithOptions(f.adopt, activity.RegisterOptions{Name: contract.ActivityAdoptTask})
		w.RegisterActivityWithOptions(f.stop, activity.RegisterOptions{Name: contract.ActivityStopTask})
		running = append(running, w)
	}
	for _, w := range running {
		require.NoError(t, w.Start())
	}
	t.Cleanup(func() {
		for _, w := range running {
			w.Stop()
		}
		f.pending.Wait()
		c.Close()
	})
	return f
}

func (f *farm) of(id run.ID) *fakeRecords {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records[id]
}

// The cluster implements the records for all runs.

func (f *farm) LoadPlan(ctx context.Context, id run.ID, page int) (run.Plan, bool, error) {
	return f.of(id).LoadPlan(ctx, id, page)
}

func (f *farm) Begin(ctx context.Context, id run.ID) (records.Standing, error) {
	return f.of(id).Begin(ctx, id)
}

func (f *farm) Apply(ctx context.Context, id run.ID, c records.Changes) (records.Standing, []records.TaskStanding, error) {
	return f.of(id).Apply(ctx, id, c)
}

func (f *farm) Expand(ctx context.Context, id run.ID, task int) (records.Expanded, error) {
	return f.of(id).Expand(ctx, id, task)
}

func (f *farm) Holders(ctx context.Context, id run.ID) (map[int]records.Holder, error) {
	return f.of(id).Holders(ctx, id)
}

// LostExecutors implements activities.Progress for all runs.
func (f *farm) LostExecutors(_ context.Context, ids []string) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]string{}
	for _, id := range ids {
		if why, ok := f.lost[id]; ok {
			out[id] = why
		}
	}
	return out, nil
}

func (f *farm) next(kind string, in contract.ExecuteInput) duty {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := kind + " " + in.Name
	n := f.calls[in.Key.Run][name]
	f.calls[in.Key.Run][name]++
	list := f.duties[in.Key.Run][name]
	if len(list) == 0 {
		return doSucceed
	}
	return list[min(n, len(list)-1)]
}

// count returns how often executors were called with call.
func (f *farm) count(id run.ID, call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[id][call]
}

func (f *farm) execute(ctx context.Context, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	return f.next("execute", in)(ctx, f, in)
}

func (f *farm) adopt(ctx context.Context, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	return f.next("adopt", in)(ctx, f, in)
}

func (f *farm) stop(_ context.Context, in contract.StopInput) (contract.StopResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped[in.Key] = true
	return contract.StopResult{Known: true}, nil
}

func (f *farm) isStopped(key run.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped[key]
}

// claim claims a task with a first heartbeat, as executors do.
func (f *farm) claim(ctx context.Context, in contract.ExecuteInput, executor string) bool {
	last := contract.Heartbeat{Executor: executor, JournalID: "j-" + executor, Key: in.Key.String()}
	if err := f.client.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, last); err != nil {
		return false
	}
	return f.of(in.Key.Run).claim(in.Key, executor)
}

func doSucceed(ctx context.Context, f *farm, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	if !f.claim(ctx, in, "host-1") {
		return contract.ExecuteResult{}, givenBack("host-1", "the claim was refused")
	}
	return ended(run.StatusSuccess, "", ""), nil
}

func doFail(ctx context.Context, f *farm, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	f.claim(ctx, in, "host-1")
	return ended(run.StatusFailed, run.CauseStep, "step 1 exited with code 3"), nil
}

func doGiveBack(context.Context, *farm, contract.ExecuteInput) (contract.ExecuteResult, error) {
	return contract.ExecuteResult{}, givenBack("host-1", "its disk is full")
}

// doVanish claims the task and then sends no heartbeats.
func doVanish(executor string) duty {
	return func(ctx context.Context, f *farm, in contract.ExecuteInput) (contract.ExecuteResult, error) {
		f.claim(ctx, in, executor)
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
}

// doVanishOf does the same as a member of an executor set.
func doVanishOf(executor, set string) duty { return doVanishLast(executor, executor, set) }

// doVanishLast claims the task for one executor, and sends its last heartbeat
// as another one, of a set or of none.
func doVanishLast(claimant, last, set string) duty {
	return func(ctx context.Context, f *farm, in contract.ExecuteInput) (contract.ExecuteResult, error) {
		beat := contract.Heartbeat{Executor: last, Set: set, JournalID: "j-" + set, Key: in.Key.String()}
		if err := f.client.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, beat); err == nil {
			f.of(in.Key.Run).claim(in.Key, claimant)
		}
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
}

// doTakeOnly sends a heartbeat and vanishes before it claims.
func doTakeOnly(executor string) duty {
	return func(ctx context.Context, _ *farm, in contract.ExecuteInput) (contract.ExecuteResult, error) {
		activity.RecordHeartbeat(ctx, contract.Heartbeat{Executor: executor, JournalID: "j", Key: in.Key.String()})
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
}

func doAnswer(result contract.ExecuteResult) duty {
	return func(context.Context, *farm, contract.ExecuteInput) (contract.ExecuteResult, error) {
		return result, nil
	}
}

// doUntil runs the task until a condition holds, or until a heartbeat or
// stop-task stops it. A deaf task ignores stop-task.
func doUntil(deaf bool, over func() bool) duty {
	return doThenOr(deaf, over, ended(run.StatusSuccess, "", ""))
}

// doThen answers with a result once a condition holds.
func doThen(over func() bool, result contract.ExecuteResult) duty {
	return doThenOr(false, over, result)
}

func doThenOr(deaf bool, over func() bool, result contract.ExecuteResult) duty {
	return func(ctx context.Context, f *farm, in contract.ExecuteInput) (contract.ExecuteResult, error) {
		if !f.claim(ctx, in, "host-1") {
			return contract.ExecuteResult{}, givenBack("host-1", "the claim was refused")
		}
		token := activity.GetInfo(ctx).TaskToken
		f.pending.Go(func() {
			f.beat(context.WithoutCancel(ctx), in.Key, token, deaf, over, result)
		})
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
}

func (f *farm) beat(ctx context.Context, key run.Key, token []byte, deaf bool, over func() bool, result contract.ExecuteResult) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for n := range 2_000 {
		<-ticker.C
		switch {
		case over():
		case f.isStopped(key) && !deaf:
			result = ended(run.StatusStopped, "", "it received a stop")
		case n%20 != 19: // the claim was a heartbeat, and stop-task may arrive before the next one
			continue
		default:
			err := f.client.RecordActivityHeartbeat(ctx, token, contract.Heartbeat{Executor: "host-1", Key: key.String(), Frame: int64(n)})
			if !temporal.IsCanceledError(err) {
				continue
			}
			result = ended(run.StatusStopped, "", "it was cancelled")
		}
		_ = f.client.CompleteActivity(ctx, token, result, nil)
		return
	}
}

// never is a condition that never holds.
func never() bool { return false }

// game is one scenario in progress.
type game struct {
	t  testing.TB
	f  *farm
	id run.ID
	*fakeRecords
}

// play starts the run of a scenario.
func (f *farm) play(t testing.TB, s scenario) *game {
	t.Helper()
	g := &game{t: t, f: f, id: newRunID(), fakeRecords: newFakeRecords(s.plan)}
	g.admitted = !s.manual && len(s.groups) == 0
	f.mu.Lock()
	f.records[g.id], f.duties[g.id], f.calls[g.id] = g.fakeRecords, s.duties, map[string]int{}
	f.mu.Unlock()
	phase := run.PhaseRunning
	if !g.admitted {
		phase = run.PhaseQueued
	}
	attributes := []temporal.SearchAttributeUpdate{temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase).ValueSet(string(phase))}
	if len(s.groups) > 0 {
		attributes = append(attributes, temporal.NewSearchAttributeKeyKeywordList(contract.AttributeChangeGroups).ValueSet(s.groups))
	}
	if s.before != nil {
		s.before(g)
	}
	_, err := f.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: contract.RunWorkflowID(g.id), TaskQueue: contract.ControlQueue, StaticSummary: s.plan.Name,
		TypedSearchAttributes: temporal.NewSearchAttributes(attributes...),
		Priority:              contract.Priority(s.plan.Priority, s.plan.Group),
	}, contract.RunWorkflow, contract.RunInput{Run: g.id, Limits: s.limits})
	require.NoError(t, err)
	return g
}

func newRunID() run.ID { return run.ID("01" + strings.ToLower(rand.Text()[:24])) }

func (g *game) signal(name string, payload any) {
	g.t.Helper()
	require.NoError(g.t, g.f.client.SignalWorkflow(g.t.Context(), contract.RunWorkflowID(g.id), "", name, payload))
}

// await waits until the records meet a condition.
func (g *game) await(what string, cond func(f *fakeRecords) bool) {
	g.t.Helper()
	testenv.Await(g.t, 90*time.Second, func() (bool, string) {
		g.mu.Lock()
		defer g.mu.Unlock()
		state := fmt.Sprintf("%s: phase %s, result %s", what, g.phase, g.result)
		for task := range len(g.tasks) {
			if x := g.tasks[task]; !x.Status.Final() {
				state += fmt.Sprintf(", task %d %s %d.%d %q", task, x.Status, x.Attempt, x.Dispatch, x.Reason)
			}
		}
		return cond(g.fakeRecords), state
	})
}

// is waits until a task has a status.
func (g *game) is(task int, s run.Status) {
	g.t.Helper()
	g.await(fmt.Sprintf("task %d is to be %s", task, s), func(f *fakeRecords) bool { return f.tasks[task].Status == s })
}

// finished waits until the run is finished, with a result and statuses.
func (g *game) finished(result run.Result, statuses ...run.Status) {
	g.t.Helper()
	g.await("the run is to be finished", func(f *fakeRecords) bool { return f.phase == run.PhaseFinished })
	require.Equal(g.t, result, g.result)
	for task, s := range statuses {
		require.Equal(g.t, s, g.tasks[task].Status, "task %d", task)
	}
}

// histories returns the histories of a run's workflow, or of one of its
// batches, oldest first, once the workflow has closed.
func (f *farm) histories(t testing.TB, workflowID string) []*historypb.History {
	t.Helper()
	var out []*historypb.History
	for runID := ""; ; {
		var h *historypb.History
		testenv.Await(t, 30*time.Second, func() (bool, string) {
			h = &historypb.History{}
			iterator := f.client.GetWorkflowHistory(t.Context(), workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for iterator.HasNext() {
				event, err := iterator.Next()
				if err != nil {
					return false, err.Error()
				}
				h.Events = append(h.Events, event)
			}
			return len(h.Events) > 0 && closing(h.Events[len(h.Events)-1]), "the workflow is open"
		})
		out = append([]*historypb.History{h}, out...)
		if runID = h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); runID == "" {
			return out
		}
	}
}

func closing(e *historypb.HistoryEvent) bool {
	switch e.GetEventType() { //nolint:exhaustive // the others are not the last
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return true
	}
	return false
}
