package follow

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
)

// task is the state of a task according to its events.
type task struct {
	name     string
	number   int
	status   run.Status
	stage    api.Stage // while it is running; "" if the gateway is older
	allowed  bool      // its failure is allowed
	reason   string
	attempt  int
	executor string
	started  time.Time // of the newest attempt; zero until it runs
	ended    time.Time
	steps    []api.Step
}

// model is the state of a run according to its events. Snapshots add only what
// events lack, and never a status: a snapshot may be newer than the events that
// were read, and the shown run must not go back.
type model struct {
	id, name, group string
	phase           run.Phase
	result          run.Result
	reason          string
	created         time.Time
	started, ended  time.Time
	tasks           []*task // by number
	byName          map[string]*task
	counts          map[run.Status]int
	tests           api.TestSummary // set when the run has ended
}

// newModel returns the run before its first event.
func newModel(r api.Run) *model {
	m := &model{
		id: r.ID, name: r.Name, group: r.Group, phase: run.PhaseQueued, result: run.ResultUnknown, created: r.CreatedAt,
		byName: make(map[string]*task, len(r.Tasks)), counts: make(map[run.Status]int),
	}
	for name, t := range r.Tasks {
		m.add(&task{name: name, number: t.Number, status: run.StatusNotStarted, allowed: t.AllowFailure})
	}
	slices.SortFunc(m.tasks, func(a, b *task) int { return cmp.Compare(a.number, b.number) })
	return m
}

func (m *model) add(t *task) {
	m.tasks = append(m.tasks, t)
	m.byName[t.name] = t
	m.counts[t.status]++
}

// apply applies an event to the run. It returns the task of a task event.
func (m *model) apply(e api.Event) *task {
	if e.Type == api.EventTypeRun {
		m.phase, m.result, m.reason = run.Phase(e.Phase), run.Result(e.Result), e.Reason
		if m.started.IsZero() && m.phase == run.PhaseRunning {
			m.started = e.Time
		}
		if m.phase.Final() {
			m.ended = e.Time
		}
		return nil
	}
	t := m.byName[e.Task]
	if t == nil {
		t = &task{name: e.Task, number: len(m.tasks), status: run.StatusNotStarted}
		m.add(t)
	}
	status := run.Status(e.Status)
	if e.Attempt != t.attempt || status == run.StatusQueued {
		t.started, t.ended, t.steps = time.Time{}, time.Time{}, nil
	}
	if status == run.StatusRunning && t.started.IsZero() {
		t.started = e.Time
	}
	if status.Final() {
		t.ended = e.Time
	}
	m.counts[t.status]--
	m.counts[status]++
	t.status, t.stage, t.reason, t.attempt, t.executor = status, e.Stage, e.Reason, e.Attempt, e.Executor
	return t
}

// merge takes from a snapshot what events lack: the computed reasons of waiting
// tasks, the steps, stages without an event, and whether a failure is allowed.
func (m *model) merge(r api.Run) {
	if run.Phase(r.Phase) == m.phase {
		m.reason = r.Reason
	}
	for name, s := range r.Tasks {
		t := m.byName[name]
		if t == nil {
			continue
		}
		t.allowed = s.AllowFailure // events of dynamic tasks lack it
		if t.status != run.Status(s.Status) || t.attempt != s.Attempt {
			continue
		}
		t.reason, t.stage, t.steps = s.Reason, s.Stage, s.Steps
	}
}

// finalize takes the final state of the run from the records.
func (m *model) finalize(r api.Run) {
	m.phase, m.result, m.reason = run.Phase(r.Phase), run.Result(r.Result), r.Reason
	m.started, m.ended, m.tests = r.StartedAt, r.EndedAt, r.Tests
	clear(m.counts)
	for name, s := range r.Tasks {
		t := m.byName[name]
		if t == nil {
			continue
		}
		t.status, t.stage, t.reason, t.attempt, t.executor = run.Status(s.Status), s.Stage, s.Reason, s.Attempt, s.Executor
		t.allowed, t.started, t.ended, t.steps = s.AllowFailure, s.StartedAt, s.EndedAt, s.Steps
		m.counts[t.status]++
	}
}

// open returns the number of tasks that may still change.
func (m *model) open() int {
	n := 0
	for status, count := range m.counts {
		if !status.Final() {
			n += count
		}
	}
	return n
}

// statusText returns the status for people, with the stage of a running task.
func (t *task) statusText() string { return render.TaskStatus(api.Status(t.status), t.stage) }

// warning reports whether the task failed and its failure is allowed.
func (t *task) warning() bool { return t.status == run.StatusFailed && t.allowed }

// source returns the log of the newest attempt.
func (t *task) source() source { return source{task: t.name, attempt: t.attempt} }

// hasLog reports whether steps of the newest attempt may have written output.
func (t *task) hasLog() bool { return t.executor != "" && t.attempt > 0 }

// step returns the number and the name of the running step, from 1; 0 if none is
// known.
func (t *task) step() (int, string) {
	for i, s := range t.steps {
		if run.Status(s.Status) == run.StatusRunning {
			return i + 1, s.Name
		}
	}
	return 0, ""
}
