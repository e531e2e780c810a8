package recordstest

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func foreachTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"makes_tasks":      testForeachCreates,
		"made_once":        testForeachRace,
		"of_an_empty_list": testForeachEmpty,
		"of_bad_lists":     testForeachBad,
		"of_a_final_run":   testForeachFinal,
		"up_to_the_limit":  testForeachLimit,
		"deleted_with_run": testForeachDeleted,
	}
}

func foreachSpec() *run.Spec {
	steps := []run.Step{{Run: "true"}}
	return &run.Spec{Name: "listed", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"plan":  {Pool: "linux", Steps: steps},
		"build": {Pool: "linux", Steps: steps, Depends: []run.Depend{{Task: "plan"}}, Foreach: run.Foreach{List: `{{ output "plan" "items" }}`}},
		"join":  {Pool: "linux", Steps: steps, Depends: []run.Depend{{Task: "build"}}},
	}}
}

// runWithItems makes the first task output a list, and succeed.
func runWithItems(t *testing.T, s records.Store, items string) run.ID {
	return runOf(t, s, foreachSpec(), items)
}

func runOf(t *testing.T, s records.Store, spec *run.Spec, items string) run.ID {
	id, key := fixture.Running(t, s, spec)
	b := fixture.Batch(key, "x", 1, run.FrameOutputs, run.FrameTaskEnd)
	b.Frames[0].Outputs = map[string]string{"items": items}
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}})
	return id
}

func expand(t *testing.T, s records.Store, id run.ID) records.Expanded {
	t.Helper()
	x, err := s.Expand(t.Context(), id, 1)
	require.NoError(t, err)
	return x
}

func testForeachCreates(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id := runWithItems(t, s, `["a", {"k": 1}]`)
	before := fixture.Get(t, s, id)
	require.Equal(t, records.Expanded{First: 3, Width: 2}, expand(t, s, id))
	r := fixture.Get(t, s, id)
	require.Greater(t, r.Version, before.Version)
	require.Len(t, r.Tasks, 5)
	require.Equal(t, 4, r.TaskCounts[run.StatusNotStarted])
	require.Equal(t, "build[1]", r.Tasks[4].Name)
	require.Equal(t, 4, r.Tasks[4].Number)
	require.Equal(t, run.StatusNotStarted, r.Tasks[4].Status)
	require.Equal(t, []run.Depend{{Task: "plan"}}, r.Tasks[4].Depends)

	require.Equal(t, records.Expanded{First: 3, Width: 2}, expand(t, s, id), "a repeated call returns the same")
	require.Equal(t, r, fixture.Get(t, s, id))

	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{{Task: 1, Status: run.StatusSuccess, Reason: "made"}, fixture.Queued(3, 1, 1), fixture.Queued(4, 1, 1)}})
	require.Equal(t, records.Expanded{First: 3, Width: 2}, expand(t, s, id))
	for i, want := range []string{"a", `{"k":1}`} {
		def := fixture.Claim(t, s, run.Key{Run: id, Task: 3 + i, Attempt: 1, Dispatch: 1})
		require.Equal(t, run.ItemName("build", i), def.Task)
		require.Equal(t, want, def.Environment[run.VariableItem])
		require.Equal(t, strconv.Itoa(i), def.Environment[run.VariableItemIndex])
	}
}

func testForeachRace(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id := runWithItems(t, s, `[1, 2, 3]`)
	require.Equal(t, 4, fixture.Race(t, 4, func(int) error {
		_, err := s.Expand(t.Context(), id, 1)
		return err
	}, ""))
	require.Len(t, fixture.Get(t, s, id).Tasks, 6)
}

func testForeachBad(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for items, want := range map[string]string{
		"x": "is not JSON", `{"a": 1}`: "is an object and not a list",
	} {
		id := runWithItems(t, s, items)
		before := fixture.Get(t, s, id)
		x := expand(t, s, id)
		require.Contains(t, x.Fault, want)
		require.Zero(t, x.Width)
		require.Equal(t, before, fixture.Get(t, s, id))
	}
	r := fixture.Create(t, s, foreachSpec())
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Status: run.StatusSkipped}}})
	require.Equal(t, `foreach: task plan has no output "items": it is skipped`, expand(t, s, r.ID).Fault)
	_, err := s.Expand(t.Context(), r.ID, 9)
	fixture.RequireCode(t, run.CodeNotFound, err)
}

func testForeachEmpty(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id := runWithItems(t, s, " [] ")
	before := fixture.Get(t, s, id)
	for range 2 {
		require.Equal(t, records.Expanded{First: 3}, expand(t, s, id))
	}
	require.Equal(t, before, fixture.Get(t, s, id))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{{Task: 1, Status: run.StatusSuccess, Reason: "its list has 0 items"}}})
	require.Equal(t, records.Expanded{First: 3}, expand(t, s, id), "a workflow that was reset asks again")

	spec := foreachSpec()
	spec.Tasks["build"].Foreach.Min = 2
	id = runOf(t, s, spec, "[1]")
	require.Contains(t, expand(t, s, id).Fault, "has 1 items; it must have 2 to 5000")
}

func testForeachFinal(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id := runWithItems(t, s, `[1]`)
	require.NoError(t, s.CloseLost(t.Context(), id, "gone"))
	_, err := s.Expand(t.Context(), id, 1)
	fixture.RequireCode(t, run.CodeConflict, err)
}

func testForeachLimit(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	list, err := json.Marshal(make([]int, run.MaxForeach))
	require.NoError(t, err)
	id := runWithItems(t, s, string(list))
	require.Equal(t, records.Expanded{First: 3, Width: run.MaxForeach}, expand(t, s, id))
	_, err = s.GetTask(t.Context(), id, run.ItemName("build", run.MaxForeach-1))
	require.NoError(t, err)
}

func testForeachDeleted(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id := runWithItems(t, s, `[1, 2]`)
	expand(t, s, id)
	require.NoError(t, s.CloseLost(t.Context(), id, "gone"))
	for _, task := range fixture.Get(t, s, id).Tasks[1:] {
		require.Equal(t, run.StatusSkipped, task.Status)
	}
	require.NoError(t, s.DeleteRun(t.Context(), id))
}
