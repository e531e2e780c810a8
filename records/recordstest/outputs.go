package recordstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func outputTests() map[string]func(t *testing.T, d *database) {
	return map[string]func(t *testing.T, d *database){
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
	id, first := running(t, s, outputSpec(key))
	require.NoError(t, s.ApplyFrames(t.Context(), batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs, run.FrameOutputs, run.FrameTaskEnd)))
	apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(0, 1, 1, run.StatusSuccess), queued(1, 1, 1)}})
	return id, run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}
}

func testOutputsReach(t *testing.T, d *database) {
	s := d.store(t)
	_, key := runWithOutputs(t, s, "n3")
	def := claim(t, s, key)
	require.Empty(t, def.Fault)
	require.Equal(t, "<v>", def.Environment["A"])
	require.Equal(t, "v", def.Steps[0].Environment["B"])
}

func testOutputsMissing(t *testing.T, d *database) {
	s := d.store(t)
	_, key := runWithOutputs(t, s, "x")
	require.Equal(t, `the variable A: task from has no output "x"; its outputs: n2, n3`, claim(t, s, key).Fault)

	r := create(t, s, outputSpec("x"))
	begin(t, s, r.ID)
	apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Status: run.StatusSkipped}, queued(1, 1, 1)}})
	require.Equal(t, `the variable A: task from has no output "x": it is skipped`, claim(t, s, run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 1}).Fault)
}

func testOutputsLate(t *testing.T, d *database) {
	s := d.store(t)
	id, first := running(t, s, outputSpec("n3"))
	require.NoError(t, s.ApplyFrames(t.Context(), batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs)))
	success := ended(0, 1, 1, run.StatusSuccess)
	success.Result.Ended = d.clock.now()
	apply(t, s, id, records.Changes{Tasks: []run.TaskChange{success, queued(1, 1, 1)}})
	key := run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}
	request := run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx"}
	_, err := s.Claim(t.Context(), request)
	requireCode(t, run.CodeUnavailable, err)
	require.Equal(t, run.StatusQueued, get(t, s, id).Tasks[1].Status)

	before := get(t, s, id).Version
	late := batch(first, "x", 3, run.FrameOutputs, run.FrameStepEnd, run.FrameTaskEnd)
	require.NoError(t, s.ApplyFrames(t.Context(), late))
	after := get(t, s, id)
	require.Equal(t, map[string]string{"n2": "v", "n3": "v"}, after.Tasks[0].Outputs)
	require.Equal(t, run.StatusSuccess, after.Tasks[0].Status)
	require.Greater(t, after.Version, before)
	require.Equal(t, "<v>", claim(t, s, key).Environment["A"])

	other, _ := running(t, s, outputSpec("n3"))
	success.Result.Ended = d.clock.now()
	apply(t, s, other, records.Changes{Tasks: []run.TaskChange{success, queued(1, 1, 1)}})
	d.clock.advance(10 * time.Minute)
	require.Equal(t, `the variable A: task from has no outputs, so no "n3"`, claim(t, s, run.Key{Run: other, Task: 1, Attempt: 1, Dispatch: 1}).Fault,
		"the wait for outputs is bounded")
}

// testOutputsStale makes a task output a key twice. The second value is in
// frames that arrive only after the task has succeeded.
func testOutputsStale(t *testing.T, d *database) {
	s := d.store(t)
	id, first := running(t, s, outputSpec("n2"))
	b := batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs)
	b.Frames[1].Outputs = map[string]string{"n2": "old"}
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	success := ended(0, 1, 1, run.StatusSuccess)
	success.Result.Ended = d.clock.now()
	apply(t, s, id, records.Changes{Tasks: []run.TaskChange{success, queued(1, 1, 1)}})
	key := run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx"})
	requireCode(t, run.CodeUnavailable, err)

	late := batch(first, "x", 3, run.FrameOutputs, run.FrameTaskEnd)
	late.Frames[0].Outputs = map[string]string{"n2": "new"}
	require.NoError(t, s.ApplyFrames(t.Context(), late))
	require.Equal(t, "<new>", claim(t, s, key).Environment["A"])
}

// testOutputsStaleList is testOutputsStale for the list of a foreach.
func testOutputsStaleList(t *testing.T, d *database) {
	s := d.store(t)
	step := []run.Step{{Run: "true"}}
	id, first := running(t, s, &run.Spec{Name: "list", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"from": {Pool: "linux", Steps: step},
		"to":   {Pool: "linux", Depends: []run.Depend{{Task: "from"}}, Foreach: `{{ output "from" "list" }}`, Steps: step},
	}})
	b := batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs)
	b.Frames[1].Outputs = map[string]string{"list": `["old"]`}
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	success := ended(0, 1, 1, run.StatusSuccess)
	success.Result.Ended = d.clock.now()
	apply(t, s, id, records.Changes{Tasks: []run.TaskChange{success}})
	_, err := s.Expand(t.Context(), id, 1)
	requireCode(t, run.CodeUnavailable, err)

	late := batch(first, "x", 3, run.FrameOutputs, run.FrameTaskEnd)
	late.Frames[0].Outputs = map[string]string{"list": `["new", "newer"]`}
	require.NoError(t, s.ApplyFrames(t.Context(), late))
	created, err := s.Expand(t.Context(), id, 1)
	require.NoError(t, err)
	require.Equal(t, 2, created.Width)
}

// testOutputsRestart restarts a run while frames of a task that is kept are
// still missing: the copy would never receive them.
func testOutputsRestart(t *testing.T, d *database) {
	s := d.store(t)
	old, first := running(t, s, outputSpec("n2"))
	b := batch(first, "x", 1, run.FrameStepStart, run.FrameOutputs)
	b.Frames[1].Outputs = map[string]string{"n2": "old"}
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	success := ended(0, 1, 1, run.StatusSuccess)
	success.Result.Ended = d.clock.now()
	apply(t, s, old, records.Changes{
		Tasks: []run.TaskChange{success, {Task: 1, Status: run.StatusSkipped}}, Result: run.ResultFailed, Finish: true,
	})
	n := newRun(t, outputSpec("n2"))
	n.Plan.Kept = []byte{run.StatusSuccess.Byte(), run.StatusNotStarted.Byte()}
	n.Restart = &records.Restart{From: old, Kept: map[int]int{0: 0}}
	_, err := s.CreateRun(t.Context(), n)
	requireCode(t, run.CodeUnavailable, err)

	late := batch(first, "x", 3, run.FrameOutputs, run.FrameTaskEnd)
	late.Frames[0].Outputs = map[string]string{"n2": "new"}
	require.NoError(t, s.ApplyFrames(t.Context(), late))
	r, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, "new", get(t, s, r.ID).Tasks[0].Outputs["n2"])
}

func testOutputsKept(t *testing.T, d *database) {
	s := d.store(t)
	old, key := runWithOutputs(t, s, "n3")
	claim(t, s, key)
	apply(t, s, old, records.Changes{Tasks: []run.TaskChange{ended(1, 1, 1, run.StatusFailed)}, Result: run.ResultFailed, Finish: true})
	n := newRun(t, outputSpec("n3"))
	n.Plan.Kept = []byte{run.StatusSuccess.Byte(), run.StatusNotStarted.Byte()}
	n.Restart = &records.Restart{From: old, Kept: map[int]int{0: 0}}
	r, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	begin(t, s, r.ID)
	apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{queued(1, 1, 1)}})
	require.Equal(t, "<v>", claim(t, s, run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 1}).Environment["A"])
}
