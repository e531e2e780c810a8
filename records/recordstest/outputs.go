package recordstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func outputTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"reach_definitions":             testOutputsReach,
		"that_are_missing":              testOutputsMissing,
		"that_come_late":                testOutputsLate,
		"are_never_stale":               testOutputsStale,
		"foreach_lists_are_never_stale": testOutputsStaleList,
		"restart_waits":                 testOutputsRestart,
		"of_a_kept_task":                testOutputsKept,
	}
}

// outputSpec returns a run of two tasks, of which the second needs an output of
// the first.
func outputSpec(key string) *run.Spec {
	return &run.Spec{Name: "hand", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"from": {Pool: "linux", Steps: []run.Step{{Run: "true"}}},
		"to": {
			Pool: "linux", Depends: []run.Depend{{Task: "from"}}, Environment: map[string]string{"A": `<{{ output "from" "` + key + `" }}>`},
			Steps: []run.Step{{Run: "true", Environment: map[string]string{"B": `{{ output "from" "n2" }}`}}},
		},
	}}
}

// runWithOutputs makes the first task output n2 and n3, and succeed.
func runWithOutputs(t *testing.T, s records.Store, key string) (run.ID, run.Key) {
	id, first := fixture.Running(t, s, outputSpec(key))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs, run.FrameOutputs, run.FrameTaskEnd)))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess), fixture.Queued(1, 1, 1)}})
	return id, run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}
}

func testOutputsReach(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := runWithOutputs(t, s, "n3")
	def := fixture.Claim(t, s, key)
	require.Empty(t, def.Fault)
	require.Equal(t, "<v>", def.Environment["A"])
	require.Equal(t, "v", def.Steps[0].Environment["B"])
}

func testOutputsMissing(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := runWithOutputs(t, s, "x")
	require.Equal(t, `the variable A: task from has no output "x"; its outputs: n2, n3`, fixture.Claim(t, s, key).Fault)

	r := fixture.Create(t, s, outputSpec("x"))
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Status: run.StatusSkipped}, fixture.Queued(1, 1, 1)}})
	require.Equal(t, `the variable A: task from has no output "x": it is skipped`, fixture.Claim(t, s, run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 1}).Fault)
}

func testOutputsLate(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, first := fixture.Running(t, s, outputSpec("n3"))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs)))
	success := fixture.Ended(0, 1, 1, run.StatusSuccess)
	success.Result.Ended = d.Clock.Now()
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{success, fixture.Queued(1, 1, 1)}})
	key := run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}
	request := run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx"}
	_, err := s.Claim(t.Context(), request)
	fixture.RequireCode(t, run.CodeUnavailable, err)
	require.Equal(t, run.StatusQueued, fixture.Get(t, s, id).Tasks[1].Status)

	before := fixture.Get(t, s, id).Version
	late := fixture.Batch(first, "x", 3, run.FrameOutputs, run.FrameStepEnd, run.FrameTaskEnd)
	require.NoError(t, s.ApplyFrames(t.Context(), late))
	after := fixture.Get(t, s, id)
	require.Equal(t, map[string]string{"n2": "v", "n3": "v"}, after.Tasks[0].Outputs)
	require.Equal(t, run.StatusSuccess, after.Tasks[0].Status)
	require.Greater(t, after.Version, before)
	require.Equal(t, "<v>", fixture.Claim(t, s, key).Environment["A"])

	other, _ := fixture.Running(t, s, outputSpec("n3"))
	success.Result.Ended = d.Clock.Now()
	fixture.Apply(t, s, other, records.Changes{Tasks: []run.TaskChange{success, fixture.Queued(1, 1, 1)}})
	d.Clock.Advance(10 * time.Minute)
	require.Equal(t, `the variable A: task from has no outputs, so no "n3"`, fixture.Claim(t, s, run.Key{Run: other, Task: 1, Attempt: 1, Dispatch: 1}).Fault,
		"the wait for outputs is bounded")
}

// testOutputsStale makes a task output a key twice. The second value is in
// frames that arrive only after the task has succeeded.
func testOutputsStale(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, first := fixture.Running(t, s, outputSpec("n2"))
	b := fixture.Batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs)
	b.Frames[1].Outputs = map[string]string{"n2": "old"}
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	success := fixture.Ended(0, 1, 1, run.StatusSuccess)
	success.Result.Ended = d.Clock.Now()
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{success, fixture.Queued(1, 1, 1)}})
	key := run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx"})
	fixture.RequireCode(t, run.CodeUnavailable, err)

	late := fixture.Batch(first, "x", 3, run.FrameOutputs, run.FrameTaskEnd)
	late.Frames[0].Outputs = map[string]string{"n2": "new"}
	require.NoError(t, s.ApplyFrames(t.Context(), late))
	require.Equal(t, "<new>", fixture.Claim(t, s, key).Environment["A"])
}

// testOutputsStaleList is testOutputsStale for the list of a foreach.
func testOutputsStaleList(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	step := []run.Step{{Run: "true"}}
	id, first := fixture.Running(t, s, &run.Spec{Name: "list", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"from": {Pool: "linux", Steps: step},
		"to":   {Pool: "linux", Depends: []run.Depend{{Task: "from"}}, Foreach: run.Foreach{List: `{{ output "from" "list" }}`}, Steps: step},
	}})
	b := fixture.Batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs)
	b.Frames[1].Outputs = map[string]string{"list": `["old"]`}
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	success := fixture.Ended(0, 1, 1, run.StatusSuccess)
	success.Result.Ended = d.Clock.Now()
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{success}})
	_, err := s.Expand(t.Context(), id, 1)
	fixture.RequireCode(t, run.CodeUnavailable, err)

	late := fixture.Batch(first, "x", 3, run.FrameOutputs, run.FrameTaskEnd)
	late.Frames[0].Outputs = map[string]string{"list": `["new", "newer"]`}
	require.NoError(t, s.ApplyFrames(t.Context(), late))
	created, err := s.Expand(t.Context(), id, 1)
	require.NoError(t, err)
	require.Equal(t, 2, created.Width)
}

// testOutputsRestart restarts a run while frames of a task that is kept are
// still missing: the copy would never receive them.
func testOutputsRestart(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	old, first := fixture.Running(t, s, outputSpec("n2"))
	b := fixture.Batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs)
	b.Frames[1].Outputs = map[string]string{"n2": "old"}
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	success := fixture.Ended(0, 1, 1, run.StatusSuccess)
	success.Result.Ended = d.Clock.Now()
	fixture.Apply(t, s, old, records.Changes{
		Tasks: []run.TaskChange{success, {Task: 1, Status: run.StatusSkipped}}, Result: run.ResultFailed, Finish: true,
	})
	n := fixture.NewRun(t, outputSpec("n2"))
	n.Plan.Kept = []byte{run.StatusSuccess.Byte(), run.StatusNotStarted.Byte()}
	n.Restart = &records.Restart{From: old, Kept: map[int]int{0: 0}}
	_, err := s.CreateRun(t.Context(), n)
	fixture.RequireCode(t, run.CodeUnavailable, err)

	late := fixture.Batch(first, "x", 3, run.FrameOutputs, run.FrameTaskEnd)
	late.Frames[0].Outputs = map[string]string{"n2": "new"}
	require.NoError(t, s.ApplyFrames(t.Context(), late))
	r, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, "new", fixture.Get(t, s, r.ID).Tasks[0].Outputs["n2"])
}

func testOutputsKept(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	old, key := runWithOutputs(t, s, "n3")
	fixture.Claim(t, s, key)
	fixture.Apply(t, s, old, records.Changes{Tasks: []run.TaskChange{fixture.Ended(1, 1, 1, run.StatusFailed)}, Result: run.ResultFailed, Finish: true})
	n := fixture.NewRun(t, outputSpec("n3"))
	n.Plan.Kept = []byte{run.StatusSuccess.Byte(), run.StatusNotStarted.Byte()}
	n.Restart = &records.Restart{From: old, Kept: map[int]int{0: 0}}
	r, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 1)}})
	require.Equal(t, "<v>", fixture.Claim(t, s, run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 1}).Environment["A"])
}
