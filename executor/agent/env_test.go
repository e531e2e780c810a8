package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

const (
	testRun          = run.ID("01jz0000000000000000000000")
	heartbeatTimeout = 30 * time.Second
)

// testEnv is the environment of executors, in virtual time: the service that delivers
// tasks and the workflow behind it, the executor API, and the hosts with their
// environments, which outlive the processes.
type testEnv struct {
	t      testing.TB
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	tokens *tokenService
	api    *fakeAPI

	mu       sync.Mutex
	began    map[attemptID]int // number of times the steps of an attempt began
	outcomes map[int][]run.TaskResult
	resets   map[int]int // of each task's workflow
	adopted  int
	script   func(key run.Key) script
	explain  func() string

	packFault error                             // of every Pack and Unpack
	connects  int                               // connections to waiting steps
	lossy     bool                              // every third connection loses its answer
	faults    func() (callFault, time.Duration) // of calls; nil: none
	log       errorLog                          // of all processes
}

// errorLog is a handler that keeps the messages of errors and warnings.
type errorLog struct {
	mu       *sync.Mutex
	messages *[]string
	warned   *[]string
}

func newErrorLog() errorLog {
	return errorLog{mu: new(sync.Mutex), messages: new([]string), warned: new([]string)}
}

// Enabled implements slog.Handler.
func (l errorLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (l errorLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Level < slog.LevelError {
		*l.warned = append(*l.warned, r.Message)
		return nil
	}
	*l.messages = append(*l.messages, r.Message)
	return nil
}

// warnings returns the number of times a warning was logged.
func (l errorLog) warnings(message string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range *l.warned {
		if m == message {
			n++
		}
	}
	return n
}

// WithAttrs implements slog.Handler. The attributes are not kept.
func (l errorLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler. The group is not kept.
func (l errorLog) WithGroup(string) slog.Handler { return l }

func (l errorLog) errors() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(*l.messages)
}

type attemptID struct{ task, attempt int }

// script describes the steps of a task.
type script struct {
	lines    int
	pause    time.Duration // between lines
	vanish   error         // the environment ends with this instead of a task_end
	setup    []string
	failure  error            // of Start, before the launch
	delay    time.Duration    // of Start, before the launch
	late     error            // of the first Start, after the launch
	refused  error            // of each Start that resumes
	hang     bool             // ends only when stopped
	cleanup  time.Duration    // how long it cleans up after a stop
	bulk     int              // bytes of a line; 0: few
	notes    string           // in the last frame, for the process that started the environment
	found    string           // likewise for a process that adopts it
	service  string           // the output of the service db; each time that it is read there is more
	unread   bool             // that output cannot be read to its end
	transfer *archiveTransfer // what the step requests after its lines
}

// callFault is a fault of a call that fails without a response.
type callFault int

const (
	noFault callFault = iota
	responseLost
	requestDelayed // the call takes effect after its caller has stopped waiting
)

var errUnanswered = run.Errorf(run.CodeUnavailable, "no response")

// nextFault returns the fault of the next call.
func (w *testEnv) nextFault() (callFault, time.Duration) {
	w.mu.Lock()
	next := w.faults
	w.mu.Unlock()
	if next == nil {
		return noFault, 0
	}
	return next()
}

// setFaults sets the faults of calls from now on; nil: none.
func (w *testEnv) setFaults(next func() (callFault, time.Duration)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = next
}

// later calls f after d.
func (w *testEnv) later(d time.Duration, f func()) {
	w.group.Go(func() {
		w.sleep(d)
		if w.ctx.Err() == nil {
			f()
		}
	})
}

// withTestEnv runs a test in virtual time. All goroutines must end with it.
func withTestEnv(t *testing.T, f func(t *testing.T, w *testEnv)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		defer w.close()
		f(t, w)
		require.NotContains(t, w.log.errors(), agent.IllegalTransition)
	})
}

func newTestEnv(t testing.TB) *testEnv {
	ctx, cancel := context.WithCancel(t.Context())
	w := &testEnv{
		log: newErrorLog(),
		t:   t, ctx: ctx, cancel: cancel,
		began:    map[attemptID]int{},
		outcomes: map[int][]run.TaskResult{},
		resets:   map[int]int{},
		script:   func(run.Key) script { return script{lines: 3, pause: time.Second, setup: []string{"pulling"}} },
	}
	w.tokens = newTokenService(w)
	w.api = newFakeAPI(w)
	return w
}

func (w *testEnv) close() {
	w.cancel()
	w.group.Wait()
}

// submit runs a task's workflow.
func (w *testEnv) submit(task int) {
	w.group.Go(func() { w.workflow(task, 1, 0) })
}

// workflow is what the run workflow does with one attempt of a task. A workflow
// that was reset continues from the dispatch of the fake records; execution is the
// number of resets before.
func (w *testEnv) workflow(task, attempt, execution int) {
	for w.ctx.Err() == nil {
		key := run.Key{Run: testRun, Task: task, Attempt: attempt}
		if !w.decide(task, execution, func() {
			key.Dispatch = max(1, w.api.dispatch(task))
			w.api.queue(key)
		}) {
			return
		}
		var last *agent.HeartbeatDetails // the last ones that name the holder
		d := w.tokens.schedule("pool", delivery{kind: "execute", key: key})
		for {
			released := false
			if !w.decide(task, execution, func() {
				if d.out.Ended != nil {
					w.api.closeClaim(key)
					w.outcomes[task] = append(w.outcomes[task], *d.out.Ended)
				}
				released = w.mustRequeue(d) && w.api.release(key, d)
			}) || d.out.Ended != nil || d.terminated || w.ctx.Err() != nil {
				return
			}
			if released {
				break
			}
			// Out of contact, or claimed by another executor: adopt.
			who := d.details
			if d.out.Claimed != nil {
				who = d.out.Claimed
			}
			holder := w.api.holder(key)
			if w.mustRequeue(d) { // that executor does not hold the claim
				who, last = nil, nil
			}
			if who == nil || who.Executor == "" && who.Set == "" {
				who = last
			}
			if who == nil {
				who = &agent.HeartbeatDetails{Executor: holder, Set: w.api.setOf(holder)}
			}
			last = who
			if who.Set != "" {
				w.countAdoption()
				d = w.tokens.schedule("set:"+who.Set, delivery{kind: "adopt", key: key, journal: who.JournalID})
				continue
			}
			if who.Executor == "" {
				if w.decide(task, execution, func() { released = w.api.release(key, d) }) && !released {
					last = nil
					continue
				}
				break // no executor ever had it
			}
			d = w.tokens.schedule("executor:"+who.Executor, delivery{kind: "adopt", key: key, journal: who.JournalID})
		}
		w.sleep(time.Second)
	}
}

// decide makes a decision of a workflow, unless the workflow was reset since.
func (w *testEnv) decide(task, execution int, do func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resets[task] != execution {
		return false
	}
	do()
	return true
}

// reset resets the workflow of a task to the moment before the task's newest
// dispatch was scheduled. A workflow that has ended is not reset.
func (w *testEnv) reset(task int) {
	w.mu.Lock()
	over := len(w.outcomes[task]) > 0
	if !over {
		w.resets[task]++
	}
	execution := w.resets[task]
	w.mu.Unlock()
	if !over {
		w.tokens.forget(task)
		w.group.Go(func() { w.workflow(task, 1, execution) })
	}
}

func (w *testEnv) countAdoption() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.adopted++
}

// adoptions returns the number of times a set was asked to adopt a task.
func (w *testEnv) adoptions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.adopted
}

// mustRequeue reports whether the key is to be queued again. An adoption can not be
// requeued.
func (w *testEnv) mustRequeue(d *delivery) bool {
	return d.out.NeverStarted != "" || d.out.Requeued != "" && d.kind == "execute"
}

func (w *testEnv) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
	}
}

// await waits, in virtual time, until cond holds.
func (w *testEnv) await(limit time.Duration, cond func() (bool, string)) {
	w.t.Helper()
	deadline, pause := time.Now().Add(limit), time.Millisecond
	for {
		synctest.Wait()
		ok, state := cond()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			if w.explain != nil {
				state += "\n" + w.explain()
			}
			w.t.Fatalf("gave up after %s; last state: %s", limit, state)
		}
		advance(pause)
		pause = min(2*pause, time.Second)
	}
}

// awaitEnd waits until each task has its outcome.
func (w *testEnv) awaitEnd(limit time.Duration, tasks ...int) {
	w.t.Helper()
	w.await(limit, func() (bool, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, task := range tasks {
			if len(w.outcomes[task]) == 0 {
				return false, fmt.Sprintf("task %d has not ended", task)
			}
		}
		return true, ""
	})
}

func (w *testEnv) outcome(task int) run.TaskResult {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(w.t, w.outcomes[task], 1)
	return w.outcomes[task][0]
}

// ends returns the outcomes that the workflow of a task has received so far.
func (w *testEnv) ends(task int) []run.TaskResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.outcomes[task])
}

// requireOnce checks that the steps of no attempt began twice.
func (w *testEnv) requireOnce() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range w.began {
		require.LessOrEqual(w.t, n, 1, "steps of %v began %d times", id, n)
	}
}

// startCount returns the number of times the steps of a task began, over all
// attempts.
func (w *testEnv) startCount(task int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for id, count := range w.began {
		if id.task == task {
			n += count
		}
	}
	return n
}

// advance advances virtual time.
func advance(d time.Duration) { <-time.After(d) }
