package recordstest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func progressTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"LoadPlan/pages_make_the_plan": testLoadPlan,
		"Begin/is_idempotent":          testBegin,
		"Apply/a_task_from_end_to_end": testApplyLife,
		"Apply/never_goes_back":        testApplyBack,
		"Apply/withdraws_unclaimed":    testApplyUnclaimed,
		"Apply/queues_unclaimed":       testApplyQueueUnclaimed,
		"Apply/retry":                  testApplyRetry,
		"Apply/finish":                 testApplyFinish,
		"Apply/many_tasks":             testApplyMany,
		"Apply/repeated_is_no_change":  testApplyRepeated,
		"Apply/no_such_task":           testApplyUnknown,
		"Apply/reasons_are_clean":      testApplyReasons,
		"Apply/random_changes":         testApplyRandom,
		"Holders":                      testHolders,
	}
}

func testLoadPlan(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := rich()
	step := []run.Step{{Run: "true"}}
	for i := range 3000 {
		name := fmt.Sprintf("t%04d-%s", i, strings.Repeat("x", 60))
		spec.Tasks[name] = &run.TaskSpec{Pool: "linux", Steps: step, Depends: []run.Depend{{Task: "deploy"}}}
	}
	n := fixture.NewRun(t, spec)
	r, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	var pages []run.Plan
	for more := true; more; {
		var page run.Plan
		page, more, err = s.LoadPlan(t.Context(), r.ID, len(pages))
		require.NoError(t, err)
		pages = append(pages, page)
	}
	require.Greater(t, len(pages), 2)
	want := n.Plan
	for i := range want.Nodes {
		want.Nodes[i].Steps = 0 // the store does not keep it
	}
	require.Empty(t, cmp.Diff(want, run.MergePlans(pages)))
	_, _, err = s.LoadPlan(t.Context(), r.ID, len(pages))
	fixture.RequireCode(t, run.CodeNotFound, err)
}

func testBegin(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	first := fixture.Get(t, s, r.ID)
	require.Equal(t, run.PhaseRunning, first.Phase)
	require.False(t, first.StartedAt.IsZero())
	fixture.Begin(t, s, r.ID)
	require.Equal(t, first, fixture.Get(t, s, r.ID))
}

func testApplyLife(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	got := fixture.Get(t, s, id)
	require.Equal(t, map[run.Status]int{run.StatusRunning: 1}, got.TaskCounts)
	task := got.Tasks[0]
	require.Equal(t, run.StatusRunning, task.Status)
	require.Equal(t, "x", task.Executor)
	require.False(t, task.QueuedAt.IsZero())
	require.False(t, task.StartedAt.Before(task.QueuedAt))
	require.Equal(t, []int{1, 1}, []int{task.Attempt, task.Dispatch})

	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusRunning, Reason: "executor x out of contact"},
	}})
	task = fixture.Get(t, s, id).Tasks[0]
	require.Equal(t, "executor x out of contact", task.Reason)
	require.Equal(t, "x", task.Executor)

	change := fixture.Ended(0, 1, 1, run.StatusFailed)
	change.Result.TimedOut, change.Result.Reason, change.Result.Cause = true, "the step took too long", run.CauseTimeout
	status, tasks := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{change}, Result: run.ResultFailed, Reason: "build failed"})
	require.Equal(t, run.Progress{Phase: run.PhaseRunning, Result: run.ResultFailed}, status)
	require.Equal(t, []run.TaskStatus{{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusFailed}}, tasks)
	got = fixture.Get(t, s, id)
	require.Equal(t, "build failed", got.Reason)
	after := got.Tasks[0]
	require.Equal(t, run.StatusFailed, after.Status)
	require.Equal(t, "the step took too long", after.Reason)
	require.True(t, after.TimedOut)
	require.Equal(t, run.CauseTimeout, after.Cause)
	require.Equal(t, 1, *after.ExitCode)
	require.Equal(t, change.Result.Ended, after.EndedAt)
	require.Equal(t, task.StartedAt, after.StartedAt, "the start is that of the claim")
	require.Equal(t, change.Result.Steps[0], after.Steps[0].StepResult)
	states, err := s.ClaimStates(t.Context(), "x", []run.Key{key})
	require.NoError(t, err)
	require.Equal(t, run.ClaimClosed, states[key])
}

func testApplyBack(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, fixture.OneTask("/a/b"))
	applyChange := func(c run.TaskChange) run.TaskStatus {
		_, tasks := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{c}})
		return tasks[0]
	}
	now := run.TaskStatus{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusRunning}
	before := fixture.Get(t, s, id)
	require.Equal(t, now, applyChange(fixture.Queued(0, 1, 1)), "a late queued does not undo the claim")
	require.Equal(t, now, applyChange(run.TaskChange{Task: 0, Status: run.StatusWaitingApproval}))
	require.Equal(t, now, applyChange(run.TaskChange{Task: 0, Attempt: 1, Status: run.StatusFailed}))
	require.Equal(t, before, fixture.Get(t, s, id))

	now = run.TaskStatus{Task: 0, Attempt: 2, Dispatch: 1, Status: run.StatusQueued}
	require.Equal(t, now, applyChange(fixture.Queued(0, 2, 1)))
	require.Equal(t, now, applyChange(fixture.Ended(0, 1, 1, run.StatusSuccess)), "the end of an earlier attempt")
	require.Equal(t, now, applyChange(fixture.Queued(0, 1, 7)))

	now.Status = run.StatusSuccess
	require.Equal(t, now, applyChange(fixture.Ended(0, 2, 1, run.StatusSuccess)))
	require.Equal(t, now, applyChange(fixture.Ended(0, 2, 1, run.StatusFailed)))
	require.Equal(t, now, applyChange(fixture.Queued(0, 3, 1)), "a final state is final")
}

func testApplyUnclaimed(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	withdrawn := run.TaskChange{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusSkipped, IfUnclaimed: true}
	id, _ := fixture.Running(t, s, fixture.OneTask("/a/b"))
	before := fixture.Get(t, s, id)
	_, tasks := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{withdrawn}})
	require.Equal(t, run.StatusRunning, tasks[0].Status, "an executor has claimed it")
	again := fixture.Queued(0, 1, 2)
	again.IfUnclaimed = true
	_, tasks = fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{again}})
	require.Equal(t, 1, tasks[0].Dispatch, "an executor has claimed it")
	require.Equal(t, before, fixture.Get(t, s, id))

	id = fixture.Create(t, s, fixture.OneTask("/a/b")).ID
	fixture.Begin(t, s, id)
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	_, tasks = fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{withdrawn}})
	require.Equal(t, run.StatusSkipped, tasks[0].Status)
}

func testApplyRetry(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutputs)))
	first := fixture.Get(t, s, id).Tasks[0]
	require.Equal(t, run.StatusRunning, first.Steps[0].Status)
	require.NotEmpty(t, first.Outputs)

	c := fixture.Queued(0, 2, 1)
	c.Reason = "attempt 1 failed: exit code 1"
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{c}})
	task := fixture.Get(t, s, id).Tasks[0]
	require.Equal(t, run.StatusQueued, task.Status)
	require.Equal(t, c.Reason, task.Reason)
	require.Empty(t, task.Executor)
	require.True(t, task.StartedAt.IsZero())
	require.True(t, task.QueuedAt.After(first.QueuedAt))
	require.Equal(t, run.StatusNotStarted, task.Steps[0].Status)
	require.Empty(t, task.Outputs)
	states, err := s.ClaimStates(t.Context(), "x", []run.Key{key})
	require.NoError(t, err)
	require.Equal(t, run.ClaimClosed, states[key])

	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 3, run.FrameStepEnd)), "late frames are accepted")
	require.Equal(t, task, fixture.Get(t, s, id).Tasks[0], "late frames change nothing")
	fixture.Claim(t, s, run.Key{Run: id, Attempt: 2, Dispatch: 1})
	require.Empty(t, fixture.Get(t, s, id).Tasks[0].Reason)
}

func testApplyFinish(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Wide("/a/b", 2))
	fixture.Begin(t, s, r.ID)
	_, _, err := s.Apply(t.Context(), r.ID, records.Changes{
		Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}, Result: run.ResultSuccess, Finish: true,
	})
	fixture.RequireCode(t, run.CodeConflict, err)
	require.Equal(t, run.StatusNotStarted, fixture.Get(t, s, r.ID).Tasks[0].Status, "the change is atomic")

	status, _ := fixture.Apply(t, s, r.ID, records.Changes{
		Tasks:  []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess), {Task: 1, Status: run.StatusSkipped, Reason: "why"}},
		Result: run.ResultSuccess, Finish: true,
	})
	require.Equal(t, run.Progress{Phase: run.PhaseFinished, Result: run.ResultSuccess}, status)
	got := fixture.Get(t, s, r.ID)
	require.False(t, got.EndedAt.IsZero())
	require.Equal(t, map[run.Status]int{run.StatusSuccess: 1, run.StatusSkipped: 1}, got.TaskCounts)
	require.True(t, got.Tasks[1].StartedAt.IsZero())
	require.False(t, got.Tasks[1].EndedAt.IsZero())

	status, _ = fixture.Apply(t, s, r.ID, records.Changes{Result: run.ResultFailed, Reason: "late", Finish: true})
	require.Equal(t, run.Progress{Phase: run.PhaseFinished, Result: run.ResultSuccess}, status)
	require.Equal(t, got, fixture.Get(t, s, r.ID))
}

func testApplyMany(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	const width = 537
	r := fixture.Create(t, s, fixture.Wide("/a/b", width))
	fixture.Begin(t, s, r.ID)
	var first, second records.Changes
	for i := range width {
		first.Tasks = append(first.Tasks, fixture.Queued(i, 1, 1))
		status := []run.Status{run.StatusSuccess, run.StatusFailed}[i%2]
		second.Tasks = append(second.Tasks, fixture.Ended(width-1-i, 1, 1, status))
	}
	fixture.Apply(t, s, r.ID, first)
	require.Equal(t, map[run.Status]int{run.StatusQueued: width}, fixture.Get(t, s, r.ID).TaskCounts)
	second.Finish, second.Result = true, run.ResultFailed
	_, tasks := fixture.Apply(t, s, r.ID, second)
	require.Len(t, tasks, width)
	got := fixture.Get(t, s, r.ID)
	for i, task := range got.Tasks {
		want := second.Tasks[width-1-i]
		require.Equal(t, want.Task, tasks[width-1-i].Task)
		require.Equal(t, want.Status, task.Status)
		require.Equal(t, *want.Result.ExitCode, *task.ExitCode)
		require.Equal(t, want.Result.Steps[0], task.Steps[0].StepResult)
		require.Equal(t, want.Result.Started, task.StartedAt)
	}
	require.Equal(t, map[run.Status]int{run.StatusSuccess: width/2 + 1, run.StatusFailed: width / 2}, got.TaskCounts)
}

func testApplyRepeated(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	c := records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}}
	fixture.Apply(t, s, r.ID, c)
	fixture.AwaitEvent(t, s, 3)
	before := fixture.Get(t, s, r.ID)
	d.Clock.Advance(time.Hour)
	fixture.Apply(t, s, r.ID, c)
	fixture.Apply(t, s, r.ID, records.Changes{})
	require.Equal(t, before, fixture.Get(t, s, r.ID))
	c.Tasks[0].Reason = "no executor of pool linux is online"
	fixture.Apply(t, s, r.ID, c)
	after := fixture.Get(t, s, r.ID)
	require.Equal(t, c.Tasks[0].Reason, after.Tasks[0].Reason)
	require.Equal(t, before.Tasks[0].QueuedAt, after.Tasks[0].QueuedAt)
	require.Equal(t, before.Version+1, after.Version)
	fixture.AwaitEvent(t, s, 4)
}

func testApplyUnknown(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	_, _, err := s.Apply(t.Context(), r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 1)}})
	fixture.RequireCode(t, run.CodeNotFound, err)
}

func testApplyReasons(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	c := run.TaskChange{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusFailed, Reason: "a\x00b\xff" + strings.Repeat("é", run.MaxReason)}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{c}, Reason: "r\x00"})
	got := fixture.Get(t, s, r.ID)
	require.True(t, strings.HasPrefix(got.Tasks[0].Reason, "abé"))
	require.LessOrEqual(t, len(got.Tasks[0].Reason), run.MaxReason)
	require.Equal(t, "r", got.Reason)
}

// testApplyRandom applies random changes and claims to a run, and checks after
// each that no task goes back and that the counts are right.
func testApplyRandom(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	random := rand.New(rand.NewPCG(3, 4)) // a fixed seed
	const width = 12
	r := fixture.Create(t, s, fixture.Wide("/a/b", width))
	fixture.Begin(t, s, r.ID)
	before := fixture.Get(t, s, r.ID)
	for range 200 {
		attempt, dispatch := random.IntN(4), random.IntN(3)
		task, status := random.IntN(width), pick(random, run.Statuses())
		if status.Final() && random.IntN(4) > 0 {
			status = run.StatusQueued
		}
		if random.IntN(3) == 0 {
			key := run.Key{Run: r.ID, Task: task, Attempt: attempt, Dispatch: dispatch}
			_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: pick(random, []string{"x", "y"}), JournalID: "j"})
			if err != nil {
				require.Contains(t, []run.Code{run.CodeConflict, run.CodeClaimed, run.CodeInvalid}, run.CodeOf(err))
			}
		} else {
			fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Task: task, Attempt: attempt, Dispatch: dispatch, Status: status}}})
		}
		after := fixture.Get(t, s, r.ID)
		counted := make(map[run.Status]int)
		for i, now := range after.Tasks {
			counted[now.Status]++
			prev := before.Tasks[i]
			key, old := run.Key{Attempt: now.Attempt, Dispatch: now.Dispatch}, run.Key{Attempt: prev.Attempt, Dispatch: prev.Dispatch}
			require.False(t, key.Before(old), "from %+v to %+v", prev, now)
			if prev.Status.Final() {
				require.Equal(t, prev, now)
			}
		}
		require.Equal(t, counted, after.TaskCounts)
		require.GreaterOrEqual(t, after.Version, before.Version)
		before = after
	}
}

// testApplyQueueUnclaimed checks that another dispatch of an attempt needs the
// release of the journal that has the claim.
func testApplyQueueUnclaimed(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	claimed := func() (run.ID, run.TaskStatus) {
		id, _ := fixture.Running(t, s, fixture.OneTask("/a/b")) // by executor x with the journal jx
		return id, run.TaskStatus{Attempt: 1, Dispatch: 1, Status: run.StatusRunning}
	}
	again := func(id run.ID, attempt, dispatch int, by run.Release) run.TaskStatus {
		t.Helper()
		c := fixture.Queued(0, attempt, dispatch)
		c.IfUnclaimed, c.Released = true, by
		_, tasks := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{c}})
		return tasks[0]
	}
	id, held := claimed()
	for name, by := range map[string]run.Release{
		"no release":                             {},
		"another journal":                        {JournalID: "jy"},
		"another executor":                       {Executor: "y"},
		"the same executor with another journal": {Executor: "x", JournalID: "another"},
		"a set without a claim":                  {Set: "s"},
	} {
		require.Equal(t, held, again(id, 1, 2, by), name)
		require.Equal(t, "x", fixture.Get(t, s, id).Tasks[0].Executor, name)
	}
	for name, by := range map[string]run.Release{
		"the claim's journal": {JournalID: "jx"}, "the executor answered": {Executor: "x"},
	} {
		id, _ := claimed()
		require.Equal(t, run.TaskStatus{Attempt: 1, Dispatch: 2, Status: run.StatusQueued}, again(id, 1, 2, by), name)
	}
	id, _ = claimed()
	require.Equal(t, run.TaskStatus{Attempt: 2, Dispatch: 1, Status: run.StatusQueued}, again(id, 2, 1, run.Release{}), "another attempt")

	// No executor has claimed a task that only the workflow marked as running.
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{
		fixture.Queued(0, 1, 1), {Attempt: 1, Dispatch: 1, Status: run.StatusRunning, Executor: "x", Reason: "out of contact"},
	}})
	require.Equal(t, run.TaskStatus{Attempt: 1, Dispatch: 2, Status: run.StatusQueued}, again(r.ID, 1, 2, run.Release{}))
}

func testHolders(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Wide("/a/b", 4))
	fixture.Begin(t, s, r.ID)
	for task := range 3 {
		fixture.Claim(t, s, run.Key{Run: r.ID, Task: task, Attempt: 1, Dispatch: 1})
	}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 2), fixture.Queued(0, 1, 2)}})
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 2}, Executor: "y", JournalID: "jy"})
	require.NoError(t, err)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Ended(2, 1, 1, run.StatusSuccess)}})
	holders, err := s.Holders(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, map[int]records.Holder{ // a task that is queued again has no holder
		1: {Key: run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 2}, Executor: "y"},
	}, holders)
}
