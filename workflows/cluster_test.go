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

// removedExecutor is an executor that was removed before the tests began.
const removedExecutor = "host-gone"

// cluster is a control worker and scripted executors on a real server. All
// scenarios share it.
type cluster struct {
	client         client.Client
	mu             sync.Mutex
	records        map[run.ID]*fakeRecords
	actions        map[run.ID]map[string][]executorAction
	calls          map[run.ID]map[string]int
	stopped        map[run.Key]bool
	forced         map[run.Key]bool // stopped without a cleanup
	pending        sync.WaitGroup
	waitingFakes   *waitingFakes
	groupQueues    map[string]*fakeGroupQueue // by change group
	retentionStore *fakeRetentionStore
	executors      map[string]*fakeExecutorRecords // by executor
	lost           map[string]string               // removed executors, with the reason
}

// executorAction is what an executor does for one dispatch or one adoption of a task.
type executorAction func(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error)

// newCluster starts the workers, or skips the test if there is no server.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	address := testenv.RequireTemporal(t)
	options := workers.ControlOptions{StopTimeout: time.Second}
	if os.Getenv(uncachedVariable) != "" {
		options.CachedWorkflows = -1
	}
	c, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace, Logger: log.NewStructuredLogger(discardLogger())})
	require.NoError(t, err)
	f := &cluster{
		client: c, records: map[run.ID]*fakeRecords{}, actions: map[run.ID]map[string][]executorAction{},
		calls: map[run.ID]map[string]int{}, stopped: map[run.Key]bool{}, forced: map[run.Key]bool{}, waitingFakes: newWaitingFakes(), groupQueues: map[string]*fakeGroupQueue{},
		retentionStore: &fakeRetentionStore{runs: 2_500, events: 10}, executors: map[string]*fakeExecutorRecords{}, lost: map[string]string{removedExecutor: "it burnt"},
	}
	running := []worker.Worker{
		workers.NewControl(c, workers.ControlDeps{Progress: f, Groups: f, Firings: f.waitingFakes, Registry: f, Retention: f.retentionStore}, options),
		workers.NewWait(c, workers.WaitDeps{Webhooks: f.waitingFakes, Runs: f.waitingFakes}, options),
	}
	for _, queue := range []string{contract.PoolQueue("linux"), contract.LabelsQueue("linux", gpuLabels), contract.ExecutorQueue("host-1"), contract.ExecutorQueue("host-2"), contract.SetQueue("blue")} {
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

func (f *cluster) of(id run.ID) *fakeRecords {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records[id]
}

// The cluster implements the records for all runs.

func (f *cluster) LoadPlan(ctx context.Context, id run.ID, page int) (run.Plan, bool, error) {
	return f.of(id).LoadPlan(ctx, id, page)
}

func (f *cluster) Begin(ctx context.Context, id run.ID) (run.Progress, error) {
	return f.of(id).Begin(ctx, id)
}

func (f *cluster) Apply(ctx context.Context, id run.ID, c records.Changes) (run.Progress, []run.TaskStatus, error) {
	return f.of(id).Apply(ctx, id, c)
}

func (f *cluster) Expand(ctx context.Context, id run.ID, task int) (records.Expanded, error) {
	return f.of(id).Expand(ctx, id, task)
}

func (f *cluster) Holders(ctx context.Context, id run.ID) (map[int]records.Holder, error) {
	return f.of(id).Holders(ctx, id)
}

// LostExecutors implements activities.Progress for all runs.
func (f *cluster) LostExecutors(_ context.Context, ids []string) (map[string]string, error) {
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

func (f *cluster) next(kind string, in contract.ExecuteInput) executorAction {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := kind + " " + in.Name
	n := f.calls[in.Key.Run][name]
	f.calls[in.Key.Run][name]++
	list := f.actions[in.Key.Run][name]
	if len(list) == 0 {
		return doSucceed
	}
	return list[min(n, len(list)-1)]
}

// count returns how often executors were called with call.
func (f *cluster) count(id run.ID, call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[id][call]
}

func (f *cluster) execute(ctx context.Context, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	return f.next("execute", in)(ctx, f, in)
}

func (f *cluster) adopt(ctx context.Context, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	return f.next("adopt", in)(ctx, f, in)
}

func (f *cluster) stop(_ context.Context, in contract.StopInput) (contract.StopResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped[in.Key] = true
	f.forced[in.Key] = f.forced[in.Key] || in.Force
	return contract.StopResult{Known: true}, nil
}

func (f *cluster) isStopped(key run.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped[key]
}

func (f *cluster) isForced(key run.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forced[key]
}

// claim claims a task with a first heartbeat, as executors do.
func (f *cluster) claim(ctx context.Context, in contract.ExecuteInput, executor string) bool {
	last := contract.Heartbeat{Executor: executor, JournalID: "j-" + executor, Key: in.Key.String()}
	if err := f.client.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, last); err != nil {
		return false
	}
	return f.of(in.Key.Run).claim(in.Key, executor)
}

func doSucceed(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	if !f.claim(ctx, in, "host-1") {
		return contract.ExecuteResult{}, requeued("host-1", "the claim was refused")
	}
	return ended(run.StatusSuccess, "", ""), nil
}

func doFail(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	f.claim(ctx, in, "host-1")
	return ended(run.StatusFailed, run.CauseStep, "step 1 exited with code 3"), nil
}

func doRequeue(context.Context, *cluster, contract.ExecuteInput) (contract.ExecuteResult, error) {
	return contract.ExecuteResult{}, requeued("host-1", "its disk is full")
}

// doVanish claims the task and then sends no heartbeats.
func doVanish(executor string) executorAction {
	return func(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
		f.claim(ctx, in, executor)
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
}

// doVanishOf does the same as a member of an executor set.
func doVanishOf(executor, set string) executorAction { return doVanishLast(executor, executor, set) }

// doVanishLast claims the task for one executor, and sends its last heartbeat
// as another one, of a set or of none.
func doVanishLast(claimant, last, set string) executorAction {
	return func(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
		beat := contract.Heartbeat{Executor: last, Set: set, JournalID: "j-" + set, Key: in.Key.String()}
		if err := f.client.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, beat); err == nil {
			f.of(in.Key.Run).claim(in.Key, claimant)
		}
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
}

// doHeartbeatOnly sends a heartbeat and vanishes before it claims.
func doHeartbeatOnly(executor string) executorAction {
	return func(ctx context.Context, _ *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
		activity.RecordHeartbeat(ctx, contract.Heartbeat{Executor: executor, JournalID: "j", Key: in.Key.String()})
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
}

func doAnswer(result contract.ExecuteResult) executorAction {
	return func(context.Context, *cluster, contract.ExecuteInput) (contract.ExecuteResult, error) {
		return result, nil
	}
}

// doUntil runs the task until a condition holds, or until a heartbeat or
// stop-task stops it. A deaf task ignores stop-task.
func doUntil(deaf bool, over func() bool) executorAction {
	return doThenOr(deaf, over, ended(run.StatusSuccess, "", ""))
}

// doThen answers with a result once a condition holds.
func doThen(over func() bool, result contract.ExecuteResult) executorAction {
	return doThenOr(false, over, result)
}

func doThenOr(deaf bool, over func() bool, result contract.ExecuteResult) executorAction {
	return func(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
		if !f.claim(ctx, in, "host-1") {
			return contract.ExecuteResult{}, requeued("host-1", "the claim was refused")
		}
		token := activity.GetInfo(ctx).TaskToken
		f.pending.Go(func() {
			f.heartbeat(context.WithoutCancel(ctx), in.Key, token, deaf, over, result)
		})
		return contract.ExecuteResult{}, activity.ErrResultPending
	}
}

// doCleanUp cleans up after a stop until a stop is forced.
func doCleanUp(ctx context.Context, f *cluster, in contract.ExecuteInput) (contract.ExecuteResult, error) {
	if !f.claim(ctx, in, "host-1") {
		return contract.ExecuteResult{}, requeued("host-1", "the claim was refused")
	}
	token := activity.GetInfo(ctx).TaskToken
	ctx = context.WithoutCancel(ctx)
	f.pending.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond) //nolint:forbidigo // the pace of the executor
		defer ticker.Stop()
		for n := 0; n < 2_000 && !f.isForced(in.Key); n++ {
			<-ticker.C
			if n%20 == 19 { // that the task is cancelled is known
				_ = f.client.RecordActivityHeartbeat(ctx, token, contract.Heartbeat{Executor: "host-1", Key: in.Key.String(), Frame: int64(n)})
			}
		}
		_ = f.client.CompleteActivity(ctx, token, ended(run.StatusStopped, "", "its cleanup was stopped"), nil)
	})
	return contract.ExecuteResult{}, activity.ErrResultPending
}

func (f *cluster) heartbeat(ctx context.Context, key run.Key, token []byte, deaf bool, over func() bool, result contract.ExecuteResult) {
	ticker := time.NewTicker(50 * time.Millisecond) //nolint:forbidigo // the pace of the executor
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

// scenarioRun is one scenario in progress.
type scenarioRun struct {
	t  testing.TB
	f  *cluster
	id run.ID
	*fakeRecords
}

// startScenario starts the run of a scenario.
func (f *cluster) startScenario(t testing.TB, s scenario) *scenarioRun {
	t.Helper()
	g := &scenarioRun{t: t, f: f, id: newRunID(), fakeRecords: newFakeRecords(s.plan)}
	g.admitted = !s.manual && len(s.groups) == 0
	f.mu.Lock()
	f.records[g.id], f.actions[g.id], f.calls[g.id] = g.fakeRecords, s.actions, map[string]int{}
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

func (g *scenarioRun) signal(name string, payload any) {
	g.t.Helper()
	require.NoError(g.t, g.f.client.SignalWorkflow(g.t.Context(), contract.RunWorkflowID(g.id), "", name, payload))
}

// await waits until the records meet a condition.
func (g *scenarioRun) await(what string, cond func(f *fakeRecords) bool) {
	g.t.Helper()
	testenv.Await(g.t, func() (bool, string) {
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

// awaitStatus waits until a task has a status.
func (g *scenarioRun) awaitStatus(task int, s run.Status) {
	g.t.Helper()
	g.await(fmt.Sprintf("task %d is to be %s", task, s), func(f *fakeRecords) bool { return f.tasks[task].Status == s })
}

// finished waits until the run is finished, with a result and statuses.
func (g *scenarioRun) finished(result run.Result, statuses ...run.Status) {
	g.t.Helper()
	g.await("the run is to be finished", func(f *fakeRecords) bool { return f.phase == run.PhaseFinished })
	require.Equal(g.t, result, g.result)
	for task, s := range statuses {
		require.Equal(g.t, s, g.tasks[task].Status, "task %d", task)
	}
}

// awaitContinued waits until a workflow has continued as new.
func (f *cluster) awaitContinued(t testing.TB, workflowID string) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		d, err := f.client.DescribeWorkflowExecution(t.Context(), workflowID, "")
		require.NoError(t, err)
		info := d.GetWorkflowExecutionInfo()
		return info.GetFirstRunId() != info.GetExecution().GetRunId(), "it does not continue as new"
	})
}

// histories returns the histories of a run's workflow, or of one of its
// batches, oldest first, once the workflow has closed.
func (f *cluster) histories(t testing.TB, workflowID string) []*historypb.History {
	t.Helper()
	var out []*historypb.History
	for runID := ""; ; {
		var h *historypb.History
		testenv.Await(t, func() (bool, string) {
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
