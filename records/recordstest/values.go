package recordstest

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// oneTask returns the specification of a run with the task "build".
func oneTask(group string) *run.Spec {
	return &run.Spec{Name: "one", Group: group, Tasks: map[string]*run.TaskSpec{
		"build": {Pool: "linux", Steps: []run.Step{{Run: "true"}}},
	}}
}

// wide returns the specification of a run with the tasks "all[N=0]" and so on.
func wide(group string, width int) *run.Spec {
	values := make([]string, width)
	for i := range values {
		values[i] = strconv.Itoa(i)
	}
	return &run.Spec{Name: "wide", Group: group, Tasks: map[string]*run.TaskSpec{
		"all": {Pool: "linux", Steps: []run.Step{{Run: "true"}}, Matrix: map[string][]string{"N": values}},
	}}
}

// newRun expands a specification that has no faults.
func newRun(t testing.TB, of *run.Spec) records.NewRun {
	t.Helper()
	x, faults := spec.Expand(of, func(_ string, t *run.TaskSpec) (string, error) { return t.Pool, nil })
	require.Empty(t, faults)
	return records.NewRun{Spec: of, Plan: x.Plan, Tasks: x.Tasks}
}

func create(t testing.TB, s records.Store, spec *run.Spec) run.Run {
	t.Helper()
	r, err := s.CreateRun(t.Context(), newRun(t, spec))
	require.NoError(t, err)
	return r
}

func begin(t testing.TB, s records.Store, id run.ID) {
	t.Helper()
	status, err := s.Begin(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, run.PhaseRunning, status.Phase)
}

func queued(task, attempt, dispatch int) run.TaskChange {
	return run.TaskChange{Task: task, Attempt: attempt, Dispatch: dispatch, Status: run.StatusQueued}
}

func ended(task, attempt, dispatch int, status run.Status) run.TaskChange {
	code := 0
	if status == run.StatusFailed {
		code = 1
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return run.TaskChange{Task: task, Attempt: attempt, Dispatch: dispatch, Status: status, Result: &run.TaskResult{
		Status: status, ExitCode: &code, Started: at, Ended: at.Add(time.Second),
		Steps: []run.StepResult{{Status: status, ExitCode: &code, Started: at, Ended: at.Add(time.Second)}},
	}}
}

// batch creates a batch of frames of step 0, numbered from first.
func batch(key run.Key, executor string, first int64, kinds ...run.FrameKind) run.FrameBatch {
	b := run.FrameBatch{Key: key, Executor: executor}
	for i, kind := range kinds {
		f := run.Frame{
			Version: run.FrameVersion, N: first + int64(i), Kind: kind,
			Time: time.Date(2026, 1, 2, 3, 4, 5, i, time.UTC),
		}
		switch kind {
		case run.FrameOutput:
			f.Stream, f.Data = run.StreamStdout, []byte("hello\n")
		case run.FrameStepEnd:
			code := 0
			f.Status, f.ExitCode = run.StatusSuccess, &code
		case run.FrameOutputs:
			f.Outputs = map[string]string{"n" + strconv.FormatInt(f.N, 10): "v"}
		case run.FrameStepStart, run.FrameTaskEnd, run.FrameArchiveRequest:
		}
		b.Frames = append(b.Frames, f)
	}
	return b
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// claimQueued queues a key, if it is newer than the stored one, and claims it
// for the executor "x".
func claimQueued(t testing.TB, s records.Store, key run.Key) {
	t.Helper()
	apply(t, s, key.Run, records.Changes{Tasks: []run.TaskChange{queued(key.Task, key.Attempt, key.Dispatch)}})
	claim(t, s, key)
}

// claim claims a key for the executor "x".
func claim(t testing.TB, s records.Store, key run.Key) run.Definition {
	t.Helper()
	d, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx", SpecVersion: run.NewestSpecVersion})
	require.NoError(t, err)
	return d
}

func apply(t testing.TB, s records.Store, id run.ID, c records.Changes) (run.Progress, []run.TaskStatus) {
	t.Helper()
	status, tasks, err := s.Apply(t.Context(), id, c)
	require.NoError(t, err)
	return status, tasks
}

// running creates a run, and queues and claims its task 0.
func running(t testing.TB, s records.Store, spec *run.Spec) (run.ID, run.Key) {
	t.Helper()
	r := create(t, s, spec)
	begin(t, s, r.ID)
	apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{queued(0, 1, 1)}})
	key := run.Key{Run: r.ID, Task: 0, Attempt: 1, Dispatch: 1}
	claim(t, s, key)
	return r.ID, key
}

func get(t testing.TB, s records.Store, id run.ID) run.Run {
	t.Helper()
	r, err := s.GetRun(t.Context(), id)
	require.NoError(t, err)
	return r
}

// takeAll takes the due outbox rows for a minute.
func takeAll(t testing.TB, s records.Store) []records.OutboxRow {
	t.Helper()
	rows, err := s.TakeOutbox(t.Context(), 100, time.Minute)
	require.NoError(t, err)
	return rows
}

// drain takes and completes all outbox rows, and returns their kinds.
func drain(t testing.TB, s records.Store) []records.OutboxKind {
	t.Helper()
	var kinds []records.OutboxKind
	for {
		rows := takeAll(t, s)
		if len(rows) == 0 {
			return kinds
		}
		for _, row := range rows {
			kinds = append(kinds, row.Kind)
			require.NoError(t, s.CompleteOutbox(t.Context(), row.ID))
		}
	}
}
