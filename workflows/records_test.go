package workflows_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// fakeRecords keeps one run as records.Progress specifies.
type fakeRecords struct {
	mu       sync.Mutex
	plan     run.Plan
	pageSize int // nodes in a page of the plan; 0: all
	phase    run.Phase
	result   run.Result
	reason   string
	admitted bool
	stop     bool
	approved []int
	granted  []int // tasks that hold the slots of their change groups
	tasks    map[int]*fakeTask
	history  []change // the changes that were written
	applies  int
	failures int       // calls that fail before it answers
	backAt   time.Time // end of the outage
	onApply  func(records.Changes)
	over     chan struct{}     // closed when the run is finished
	waitsFor map[int]string    // executors that the workflow waits for, by task
	lost     map[string]string // removed executors, with the reason
	sets     map[string]string // set of each executor
	lists    map[int]int       // number of items of the list of a foreach task
	expanded map[int]records.Expanded
	expands  int
	// conditions has, by task, the statuses in which the records answer the first
	// changes that let the task begin: "" if its condition holds, not_started if it
	// cannot be evaluated yet.
	conditions map[int][]run.Status
	// acquire is how long queued tasks may wait for an executor. The tasks of
	// extended may wait that often again.
	acquire  time.Duration
	extended map[int]int
}

type fakeTask struct {
	run.TaskChange
	executor string
	claimed  run.Key
}

// held reports whether the newest dispatch is claimed.
func (t *fakeTask) held() bool {
	return t.Status == run.StatusRunning && t.executor != "" && t.claimed.Attempt == t.Attempt && t.claimed.Dispatch == t.Dispatch
}

func (t *fakeTask) releasedBy(r run.Release) bool {
	if r.JournalID != "" {
		return r.JournalID == "j-"+t.executor
	}
	return r.Executor == t.executor
}

// change is the short form of a written change.
type change struct {
	Task, Attempt, Dispatch int
	Status                  run.Status
	Reason                  string
}

func newFakeRecords(plan run.Plan) *fakeRecords {
	f := &fakeRecords{plan: plan, phase: run.PhaseQueued, result: run.ResultUnknown, admitted: true, tasks: map[int]*fakeTask{}, waitsFor: map[int]string{}, lists: map[int]int{}, extended: map[int]int{}, expanded: map[int]records.Expanded{}, over: make(chan struct{})}
	for _, n := range plan.Nodes {
		for i := range n.Width {
			t := &fakeTask{TaskChange: run.TaskChange{Task: n.First + i, Status: run.StatusNotStarted}}
			if len(plan.Kept) > 0 {
				t.Status = run.StatusOf(plan.Kept[n.First+i])
			}
			f.tasks[n.First+i] = t
		}
	}
	return f
}

func (f *fakeRecords) lock() (unlock func(), err error) {
	f.mu.Lock()
	if f.failures > 0 || time.Now().Before(f.backAt) {
		f.failures = max(0, f.failures-1)
		return f.mu.Unlock, run.Errorf(run.CodeUnavailable, "%w", errOutage)
	}
	return f.mu.Unlock, nil
}

func (f *fakeRecords) LoadPlan(_ context.Context, _ run.ID, page int) (run.Plan, bool, error) {
	unlock, err := f.lock()
	defer unlock()
	p := f.plan
	if f.pageSize > 0 {
		from := min(len(p.Nodes), page*f.pageSize)
		to := min(len(p.Nodes), from+f.pageSize)
		p.Nodes = p.Nodes[from:to]
		return p, to < len(f.plan.Nodes), err
	}
	return p, false, err
}

func (f *fakeRecords) Begin(context.Context, run.ID) (run.Progress, error) {
	unlock, err := f.lock()
	defer unlock()
	if err == nil && f.phase == run.PhaseQueued && f.admitted {
		f.phase = run.PhaseRunning
	}
	return f.standing(), err
}

func (f *fakeRecords) standing() run.Progress {
	return run.Progress{Phase: f.phase, Result: f.result, StopRequested: f.stop, Approved: slices.Clone(f.approved), Granted: slices.Clone(f.granted)}
}

func (f *fakeRecords) needsSlots(task int) bool {
	return slices.ContainsFunc(f.plan.Nodes, func(n run.Node) bool {
		return n.ChangeGroups && task >= n.First && task < n.First+n.Width
	})
}

// grant gives tasks their slots.
func (f *fakeRecords) grant(tasks ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.granted = append(f.granted, tasks...)
}

func rank(s run.Status) int {
	switch s {
	case run.StatusWaitingApproval:
		return 1
	case run.StatusWaitingChangeGroup:
		return 2
	case run.StatusQueued:
		return 3
	case run.StatusRunning:
		return 4
	case run.StatusNotStarted:
		return 0
	default:
		return 5
	}
}

func (f *fakeRecords) Apply(_ context.Context, _ run.ID, c records.Changes) (run.Progress, []run.TaskStatus, error) {
	unlock, err := f.lock()
	defer unlock()
	if err != nil {
		return run.Progress{}, nil, err
	}
	f.applies++
	if f.onApply != nil {
		f.onApply(c)
	}
	open := !f.phase.Final()
	for _, x := range c.Tasks {
		if x.Executor != "" {
			f.waitsFor[x.Task] = x.Executor
		}
		t := f.tasks[x.Task]
		if answers := f.conditions[x.Task]; len(answers) > 0 && open && t.Attempt == 0 && !t.Status.Final() && (x.Status == run.StatusQueued || x.Status == run.StatusWaitingApproval || x.Status == run.StatusWaitingChangeGroup) {
			f.conditions[x.Task] = answers[1:]
			switch answers[0] { //nolint:exhaustive // the answers of conditions
			case run.StatusNotStarted:
				continue
			case run.StatusSkipped, run.StatusFailed:
				x = run.TaskChange{Task: x.Task, Status: answers[0], Reason: "if: x is false"}
			}
		}
		if x.NotAcquired && t.Status == run.StatusQueued {
			if f.extended[x.Task]--; f.extended[x.Task] < 0 {
				x = run.TaskChange{Task: x.Task, Attempt: t.Attempt, Dispatch: t.Dispatch, Status: run.StatusFailed, Reason: "no instance"}
			}
		}
		if x.Status == run.StatusQueued && t.Attempt == 0 && f.needsSlots(x.Task) && !slices.Contains(f.granted, x.Task) {
			x = run.TaskChange{Task: x.Task, Status: run.StatusWaitingChangeGroup}
		}
		was, now := run.Key{Attempt: t.Attempt, Dispatch: t.Dispatch}, run.Key{Attempt: x.Attempt, Dispatch: x.Dispatch}
		switch {
		case !open, t.Status.Final(), now.Before(was), now == was && rank(x.Status) < rank(t.Status),
			x.IfUnclaimed && x.Status != run.StatusQueued && t.Status == run.StatusRunning,
			x.IfUnclaimed && x.Status == run.StatusQueued && x.Attempt == t.Attempt && x.Dispatch > t.Dispatch && t.held() && !t.releasedBy(x.Released),
			x.Executor != "" && x.Reason == "" && x.Status == run.StatusRunning && t.Status == run.StatusRunning && now == was:
			continue
		}
		t.TaskChange = x
		f.history = append(f.history, change{x.Task, x.Attempt, x.Dispatch, x.Status, x.Reason})
	}
	if open && c.Result != "" {
		f.result = c.Result
	}
	if open && c.Reason != "" {
		f.reason = c.Reason
	}
	if open && c.Finish {
		for _, t := range f.tasks {
			if !t.Status.Final() {
				return run.Progress{}, nil, run.Errorf(run.CodeConflict, "task %d is %s", t.Task, t.Status)
			}
		}
		f.phase = run.PhaseFinished
		close(f.over)
	}
	var out []run.TaskStatus
	for _, x := range c.Tasks {
		t := f.tasks[x.Task]
		s := run.TaskStatus{Task: x.Task, Attempt: t.Attempt, Dispatch: t.Dispatch, Status: t.Status}
		if s.Status == run.StatusQueued {
			s.AcquireTimeout = run.Duration(f.acquire)
		}
		out = append(out, s)
	}
	standing := f.standing()
	standing.Granted = slices.DeleteFunc(standing.Granted, func(task int) bool { // Begin returns all
		return !slices.ContainsFunc(c.Tasks, func(x run.TaskChange) bool { return x.Task == task && x.Status == run.StatusWaitingChangeGroup })
	})
	return standing, out, nil
}

// Expand creates the tasks of a list. A task without a list is a fault.
func (f *fakeRecords) Expand(_ context.Context, _ run.ID, task int) (records.Expanded, error) {
	unlock, err := f.lock()
	defer unlock()
	if err != nil {
		return records.Expanded{}, err
	}
	f.expands++
	if x, ok := f.expanded[task]; ok {
		return x, nil
	}
	if f.phase.Final() {
		return records.Expanded{}, run.Errorf(run.CodeConflict, "the run is %s", f.phase)
	}
	if answers := f.conditions[task]; len(answers) > 0 && answers[0] == run.StatusSkipped {
		return records.Expanded{Skipped: "if: x is false"}, nil
	}
	width, ok := f.lists[task]
	if !ok {
		return records.Expanded{Fault: "the list is null"}, nil
	}
	x := records.Expanded{First: len(f.tasks), Width: width}
	for i := range x.Width {
		f.tasks[x.First+i] = &fakeTask{TaskChange: run.TaskChange{Task: x.First + i, Status: run.StatusNotStarted}}
	}
	f.expanded[task] = x
	return x, nil
}

func (f *fakeRecords) Holders(context.Context, run.ID) (map[int]records.Holder, error) {
	unlock, err := f.lock()
	defer unlock()
	out := map[int]records.Holder{}
	for task, t := range f.tasks {
		if t.held() {
			out[task] = records.Holder{Key: t.claimed, Executor: t.executor, Set: f.sets[t.executor]}
		}
	}
	return out, err
}

func (f *fakeRecords) LostExecutors(_ context.Context, ids []string) (map[string]string, error) {
	unlock, err := f.lock()
	defer unlock()
	out := map[string]string{}
	for _, id := range ids {
		if why, ok := f.lost[id]; ok {
			out[id] = why
		}
	}
	return out, err
}

// claim claims a key for an executor, and reports whether the executor now
// holds it.
func (f *fakeRecords) claim(key run.Key, executor string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tasks[key.Task]
	if t.Status == run.StatusRunning && t.executor == executor && t.claimed == key {
		return true // a repeated claim
	}
	if t.Status != run.StatusQueued || t.Attempt != key.Attempt || t.Dispatch != key.Dispatch || f.stop && !f.isFinally(key.Task) {
		return false
	}
	t.Status, t.executor, t.claimed = run.StatusRunning, executor, key
	return true
}

func (f *fakeRecords) isFinally(task int) bool {
	return slices.ContainsFunc(f.plan.Nodes, func(n run.Node) bool { return n.Finally && task >= n.First && task < n.First+n.Width })
}

// setClaim claims a key as an executor did before the workflow was reset.
func (f *fakeRecords) setClaim(key run.Key, executor string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tasks[key.Task]
	t.Status, t.Attempt, t.Dispatch, t.executor, t.claimed = run.StatusRunning, key.Attempt, key.Dispatch, executor, key
}

// writes returns the written changes of a task.
func (f *fakeRecords) writes(task int) []change {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []change
	for _, c := range f.history {
		if c.Task == task {
			out = append(out, c)
		}
	}
	return out
}
