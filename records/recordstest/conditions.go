package recordstest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func conditionTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"of_tasks":              testConditions,
		"are_decided_once":      testConditionsOnce,
		"without_a_value":       testConditionsFail,
		"of_steps":              testConditionsOfSteps,
		"before_an_approval":    testConditionsBeforeApproval,
		"read_no_secrets":       testConditionsSecrets,
		"wait_for_late_outputs": testConditionsLate,
		"of_a_matrix":           testConditionsOfMatrix,
		"of_a_list":             testConditionsOfList,
		"at_a_claim":            testConditionsAtClaim,
		"after_a_restart":       testConditionsRestart,
		"read_the_environment":  testConditionsEnvironment,
		"take_turns":            testConditionsTakeTurns,
		"that_take_too_long":    testConditionsTooLong,
	}
}

// conditional is a run of the task a, and of b, which depends on it and has a
// condition.
func conditional(text string, change ...func(*run.Spec)) *run.Spec {
	steps := []run.Step{{Run: "true"}}
	s := &run.Spec{
		Name: "conditional", Group: "/a/b", Environment: map[string]string{"STAGE": "test"}, Annotations: map[string]string{"branch": "main"},
		Tasks: map[string]*run.TaskSpec{
			"a": {Pool: "linux", Steps: steps},
			"b": {Pool: "linux", Steps: steps, Depends: []run.Depend{{Task: "a", On: []run.Condition{run.OnSuccess, run.OnFailure}}}, If: text},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// ended is a change that ends the task a, with a status.
func ended(status run.Status) run.TaskChange { return fixture.Ended(0, 1, 1, status) }

// outputsOfA sends the outputs of the task a, and the end of its log.
func outputsOfA(t *testing.T, s records.Store, key run.Key, outputs map[string]string) {
	t.Helper()
	b := fixture.Batch(key, "x", 1, run.FrameOutputs, run.FrameTaskEnd)
	b.Frames[0].Outputs = outputs
	require.NoError(t, s.ApplyFrames(t.Context(), b))
}

func testConditions(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for text, want := range map[string]run.Status{
		"true":                              run.StatusQueued,
		"false":                             run.StatusSkipped,
		`tasks.a.status == "success"`:       run.StatusQueued,
		`tasks.a.status == "failed"`:        run.StatusSkipped,
		`tasks.a.outputs.k == "v"`:          run.StatusQueued,
		`has(tasks.a.outputs.other)`:        run.StatusSkipped,
		`env.STAGE == "test"`:               run.StatusQueued,
		`annotations.branch == "main"`:      run.StatusQueued,
		`run.name == "conditional"`:         run.StatusQueued,
		`run.group == "/a/b" && inputs=={}`: run.StatusQueued,
	} {
		id, key := fixture.Running(t, s, conditional(text))
		outputsOfA(t, s, key, map[string]string{"k": "v"})
		// The end of a is in the same transaction: the condition sees it.
		_, got := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusSuccess), fixture.Queued(1, 1, 1)}})
		require.Equal(t, want, got[1].Status, text)
		b := fixture.Get(t, s, id).Tasks[1]
		require.Equal(t, want, b.Status, text)
		if want == run.StatusSkipped {
			require.Equal(t, "if: "+text+" is false", b.Reason)
			require.Zero(t, b.Attempt)
			_, err := s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}, Executor: "x", JournalID: "jx"})
			fixture.RequireCode(t, run.CodeConflict, err)
		}
	}
}

// testConditionsOnce repeats changes, as an activity that is executed again and a
// workflow that is reset do, after the annotation has changed.
func testConditionsOnce(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for branch, want := range map[string]run.Status{"main": run.StatusQueued, "other": run.StatusSkipped} {
		id, _ := fixture.Running(t, s, conditional(`annotations.branch == "`+branch+`"`))
		change := records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed), fixture.Queued(1, 1, 1)}}
		fixture.Apply(t, s, id, change)
		before := fixture.Get(t, s, id)
		require.Equal(t, want, before.Tasks[1].Status)
		require.NoError(t, s.Annotate(t.Context(), id, "", map[string]string{"branch": "third"}, nil))
		fixture.Apply(t, s, id, change)
		next := fixture.Queued(1, 2, 1)
		_, got := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{next}})
		require.Equal(t, want, got[0].Status)
		require.Equal(t, before.Tasks[1].Reason, fixture.Get(t, s, id).Tasks[1].Reason)
	}
}

func testConditionsFail(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for text, want := range map[string]string{
		`tasks.a.outputs.k == "v"`: `if: tasks.a.outputs.k == "v": "k" is not set; has() tests whether it is`,
		`inputs.x`:                 `if: inputs.x: "x" is not set; has() tests whether it is`,
		`annotations.y == "z"`:     `if: annotations.y == "z": "y" is not set; has() tests whether it is`,
		`tasks.a.nothing`:          `if: tasks.a.nothing: column 8: there is no field "nothing"; a task has status and outputs, the run has id, name, group and counter`, // of another version
	} {
		id, key := fixture.Running(t, s, conditional(text))
		outputsOfA(t, s, key, nil)
		_, got := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusSuccess), fixture.Queued(1, 1, 1)}})
		require.Equal(t, run.StatusFailed, got[1].Status, text)
		require.Equal(t, want, fixture.Get(t, s, id).Tasks[1].Reason)
	}
}

func testConditionsOfSteps(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, conditional("", func(s *run.Spec) {
		s.Tasks["b"].Steps = []run.Step{
			{Run: "0", If: `tasks.a.status == "success"`},
			{Run: "1"},
			{Run: "2", If: `env.STAGE == "test"`},
			{Run: "3", If: `env.STAGE == "own"`, Environment: map[string]string{"STAGE": "own"}},
		}
	}))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed), fixture.Queued(1, 1, 1)}})
	skipped := func(key run.Key) (out []bool) {
		def := fixture.Claim(t, s, key)
		require.Equal(t, 4, run.RequiredSpecVersion(&def))
		for _, step := range def.Steps {
			out = append(out, step.Skip)
		}
		return out
	}
	key := run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "old", JournalID: "jo", SpecVersion: 3})
	fixture.RequireCode(t, run.CodeConflict, err)
	require.ErrorContains(t, err, "are skipped by a condition")
	require.Equal(t, []bool{true, false, false, false}, skipped(key))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 2, 1)}})
	require.Equal(t, []bool{true, false, false, false}, skipped(run.Key{Run: id, Task: 1, Attempt: 2, Dispatch: 1}))

	id, _ = fixture.Running(t, s, conditional("", func(s *run.Spec) { s.Tasks["b"].Steps = []run.Step{{Run: "0"}, {Run: "1", If: "inputs.x"}} }))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed), fixture.Queued(1, 1, 1)}})
	require.Equal(t, `if of step 2: inputs.x: "x" is not set; has() tests whether it is`, fixture.Get(t, s, id).Tasks[1].Reason)
}

func testConditionsBeforeApproval(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	approved := func(s *run.Spec) { s.Tasks["b"].Approval.Approvers = 1 }
	waiting := run.TaskChange{Task: 1, Status: run.StatusWaitingApproval, Reason: "waits"}

	id, _ := fixture.Running(t, s, conditional("false", approved))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed), waiting}})
	require.Equal(t, run.StatusSkipped, fixture.Get(t, s, id).Tasks[1].Status)

	id, _ = fixture.Running(t, s, conditional(`annotations.branch == "main"`, approved))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed), waiting}})
	require.Equal(t, run.StatusWaitingApproval, fixture.Get(t, s, id).Tasks[1].Status)
	require.NoError(t, s.Annotate(t.Context(), id, "", map[string]string{"branch": "other"}, nil))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 1)}})
	require.Equal(t, run.StatusQueued, fixture.Get(t, s, id).Tasks[1].Status)
}

func testConditionsSecrets(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, conditional(`"S" in env || "P" in env || "F" in env || "O" in env || env.size() != 1`, func(s *run.Spec) {
		s.Secrets = map[string]run.Secret{"S": "hidden"}
		s.SecretsFrom = map[string]run.SecretRef{"P": {Provider: "p", Name: "n"}, "F": {Provider: "p", Name: "f"}}
		s.SecretFiles = []string{"F"}
		s.Environment["S"] = "shadowed"
		s.Tasks["b"].Environment = map[string]string{"O": `{{ output "a" "k" }}`}
	}))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed), fixture.Queued(1, 1, 1)}})
	require.Equal(t, run.StatusSkipped, fixture.Get(t, s, id).Tasks[1].Status)
}

// testConditionsLate sends the last outputs of a task after its end.
func testConditionsLate(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, conditional(`tasks.a.outputs.k == "new"`))
	success := ended(run.StatusSuccess)
	success.Result.Ended = d.Clock.Now()
	_, got := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{success, fixture.Queued(1, 1, 1)}})
	require.Equal(t, run.StatusSuccess, got[0].Status, "other changes are written")
	require.Equal(t, run.TaskStatus{Task: 1, Status: run.StatusNotStarted}, got[1])
	outputsOfA(t, s, key, map[string]string{"k": "new"})
	_, got = fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 1)}})
	require.Equal(t, run.StatusQueued, got[0].Status)
}

func testConditionsOfMatrix(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, conditional(`matrix.OS == "linux" && env.OS == matrix.OS`, func(s *run.Spec) {
		s.Tasks["b"].Matrix = run.Matrix{Axes: map[string][]string{"OS": {"darwin", "linux"}}}
	}))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed), fixture.Queued(1, 1, 1), fixture.Queued(2, 1, 1)}})
	tasks := fixture.Get(t, s, id).Tasks
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusQueued}, []run.Status{tasks[1].Status, tasks[2].Status})
}

func testConditionsOfList(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	list := func(s *run.Spec) {
		s.Tasks["b"].Foreach.List = `{{ output "a" "items" }}`
		s.Tasks["b"].Steps = []run.Step{{Run: "0", If: "item_index == 1"}}
	}
	create := func(text string) run.ID {
		id, key := fixture.Running(t, s, conditional(text, list))
		outputsOfA(t, s, key, map[string]string{"items": `["x", "y"]`})
		fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusSuccess)}})
		return id
	}
	require.Equal(t, records.Expanded{Skipped: `if: tasks.a.status != "success" is false`}, expand(t, s, create(`tasks.a.status != "success"`)))
	require.Equal(t, records.Expanded{Fault: `if: inputs.x: "x" is not set; has() tests whether it is`}, expand(t, s, create(`inputs.x`)))

	id := create(`annotations.branch == "main"`)
	require.Equal(t, records.Expanded{First: 2, Width: 2}, expand(t, s, id))
	require.NoError(t, s.Annotate(t.Context(), id, "", map[string]string{"branch": "other"}, nil))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{{Task: 1, Status: run.StatusSuccess}, fixture.Queued(2, 1, 1), fixture.Queued(3, 1, 1)}})
	for i, skipped := range []bool{true, false} {
		require.Equal(t, skipped, fixture.Claim(t, s, run.Key{Run: id, Task: 2 + i, Attempt: 1, Dispatch: 1}).Steps[0].Skip)
	}

	id = create(`item == "y"`)
	require.Equal(t, records.Expanded{First: 2, Width: 2}, expand(t, s, id))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{{Task: 1, Status: run.StatusSuccess}, fixture.Queued(2, 1, 1), fixture.Queued(3, 1, 1)}})
	tasks := fixture.Get(t, s, id).Tasks
	require.Equal(t, []run.Status{run.StatusSkipped, run.StatusQueued}, []run.Status{tasks[2].Status, tasks[3].Status})
}

// testConditionsAtClaim claims a task whose conditions are open, as if a control
// worker of an older version had queued it.
func testConditionsAtClaim(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for text, fault := range map[string]string{
		"true":  "",
		"false": "if: false is false, and the control worker that queued the task is too old to skip it",
	} {
		id, _ := fixture.Running(t, s, conditional(text))
		fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed)}})
		require.Equal(t, fault, fixture.Claim(t, s, run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}).Fault)
	}
}

func testConditionsRestart(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := conditional(`tasks.a.outputs.k == "v" && env.STAGE == "prod"`)
	old, key := fixture.Running(t, s, spec)
	outputsOfA(t, s, key, map[string]string{"k": "v"})
	fixture.Apply(t, s, old, records.Changes{
		Tasks: []run.TaskChange{ended(run.StatusSuccess), fixture.Queued(1, 1, 1)}, Result: run.ResultSuccess, Finish: true,
	})
	require.Equal(t, run.StatusSkipped, fixture.Get(t, s, old).Tasks[1].Status)
	spec.Environment["STAGE"] = "prod"
	n := fixture.NewRun(t, spec)
	n.Plan.Kept = []byte{run.StatusSuccess.Byte(), run.StatusNotStarted.Byte()}
	n.Restart = &records.Restart{From: old, Kept: map[int]int{0: 0}}
	r, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	fixture.Begin(t, s, r.ID)
	_, got := fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 1)}})
	require.Equal(t, run.StatusQueued, got[0].Status)
}

// testConditionsEnvironment reads variables that several levels set, by name and all.
func testConditionsEnvironment(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, conditional("", func(s *run.Spec) {
		s.Environment["BOTH"], s.Environment["OUT"] = "run", "run"
		b := s.Tasks["b"]
		b.Matrix = run.Matrix{Axes: map[string][]string{"AXIS": {"matrix"}}}
		b.Environment = map[string]string{"BOTH": "task", "AXIS": "task", "OUT": `{{ output "a" "k" }}`}
		step := map[string]string{"BOTH": "step", "STAGE": `{{ output "a" "k" }}`}
		b.Steps = []run.Step{
			{Run: "0", If: `env.BOTH == "task" && env.AXIS == "matrix" && env.STAGE == "test" && !has(env.OUT)`},
			{Run: "1", If: `env == {"BOTH": "task", "AXIS": "matrix", "STAGE": "test"}`},
			{Run: "2", If: `env.BOTH == "step" && env.AXIS == "matrix" && !has(env.STAGE) && !("OUT" in env)`, Environment: step},
			{Run: "3", If: `env == {"BOTH": "step", "AXIS": "matrix"}`, Environment: step},
			{Run: "4", If: `env.exists(name, env[name] == "test")`},
		}
	}))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed), fixture.Queued(1, 1, 1)}})
	require.Empty(t, fixture.Get(t, s, id).Tasks[1].Reason)
	for i, step := range fixture.Claim(t, s, run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}).Steps {
		require.False(t, step.Skip, i)
	}
}

// loops is a condition whose evaluation costs nearly as much as it may.
const loops = `[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30].all(a,
	[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30].all(b, a + b > 0))`

// testConditionsTakeTurns queues tasks whose conditions take long. No transaction
// decides many of them, so that those of other runs can come between.
func testConditionsTakeTurns(t *testing.T, d *fixture.Database) {
	const width = 100
	s := d.Store(t)
	id, _ := fixture.Running(t, s, conditional("", func(s *run.Spec) {
		s.Tasks["b"].Matrix = run.Matrix{Axes: map[string][]string{"I": fixture.Numbers(width)}}
		for range 5 {
			s.Tasks["b"].Steps = append(s.Tasks["b"].Steps, run.Step{Run: "true", If: loops})
		}
	}))
	c := records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed)}}
	for i := range width {
		c.Tasks = append(c.Tasks, fixture.Queued(i+1, 1, 1))
	}
	for queued := 0; queued < width; {
		_, statuses := fixture.Apply(t, s, id, c)
		now := 0
		for i, status := range statuses {
			require.Equal(t, c.Tasks[i].Task, status.Task)
			if status.Status == run.StatusQueued {
				now++
			}
		}
		require.Greater(t, now, queued, "each call decides some")
		queued = now
	}
	// All events of a transaction have one time.
	together := make(map[int64]int)
	for _, e := range fixture.ReadAll(t, s, run.EventQuery{Run: id}) {
		if e.Status == run.StatusQueued {
			together[e.Time.UnixNano()]++
			require.LessOrEqual(t, together[e.Time.UnixNano()], 5)
		}
	}
}

// testConditionsTooLong has conditions of which each takes long, and all together too
// long.
func testConditionsTooLong(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for steps, want := range map[int]run.Status{10: run.StatusQueued, 20: run.StatusFailed} {
		id, _ := fixture.Running(t, s, conditional("", func(s *run.Spec) {
			s.Tasks["b"].Steps = slices.Repeat([]run.Step{{Run: "true", If: loops}}, steps)
		}))
		_, got := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(run.StatusFailed), fixture.Queued(1, 1, 1)}})
		require.Equal(t, want, got[1].Status)
		b := fixture.Get(t, s, id).Tasks[1]
		require.Equal(t, want, b.Status)
		if want == run.StatusFailed {
			require.Equal(t, "if: the conditions of the task and of its steps together take too long", b.Reason)
		}
	}
}
