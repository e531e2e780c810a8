package recordstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func frameTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"record_steps_and_outputs":    testFrames,
		"show_the_stages":             testStages,
		"of_one_batch_are_one_event":  testStagesInOneBatch,
		"have_few_stage_events":       testStageEvents,
		"are_idempotent_and_gapless":  testFrameBounds,
		"need_a_claim":                testFramesNeedClaim,
		"after_the_end_are_only_kept": testFramesLate,
		"batches_are_listed":          testBatches,
		"sent_twice_at_once":          testFramesRace,
	}
}

func twoSteps() *run.Spec {
	spec := fixture.OneTask("/a/b")
	spec.Tasks["build"].Steps = []run.Step{{Run: "true"}, {Name: "two", Run: "true"}}
	return spec
}

func testFrames(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id, key := fixture.Running(t, s, twoSteps())
	before := fixture.Get(t, s, id)

	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameOutput)))
	require.Equal(t, before, fixture.Get(t, s, id), "output frames change no state")

	b := fixture.Batch(key, "x", 2, run.FrameStepStart, run.FrameStepEnd, run.FrameStepStart, run.FrameOutputs)
	b.Frames[2].Step = 1
	require.NoError(t, s.ApplyFrames(ctx, b))
	got := fixture.Get(t, s, id)
	require.Greater(t, got.Version, before.Version)
	code := 0
	require.Equal(t, []run.StepState{
		{Type: "run", StepResult: run.StepResult{Status: run.StatusSuccess, ExitCode: &code, Started: b.Frames[0].Time, Ended: b.Frames[1].Time}},
		{Name: "two", Type: "run", StepResult: run.StepResult{Status: run.StatusRunning, Started: b.Frames[2].Time}},
	}, got.Tasks[0].Steps)
	require.Equal(t, map[string]string{"n5": "v"}, got.Tasks[0].Outputs)
	require.Equal(t, run.StatusRunning, got.Tasks[0].Status)

	more := fixture.Batch(key, "x", 6, run.FrameOutputs, run.FrameTaskEnd)
	require.NoError(t, s.ApplyFrames(ctx, more))
	got = fixture.Get(t, s, id)
	require.Equal(t, map[string]string{"n5": "v", "n6": "v"}, got.Tasks[0].Outputs)
	require.Equal(t, run.StatusRunning, got.Tasks[0].Status, "the workflow writes the end")
}

// stageEvents returns the stages of the events of a type.
func stageEvents(t *testing.T, s records.Store, kind run.EventType) (stages []run.Stage) {
	t.Helper()
	for _, e := range fixture.ReadAll(t, s, run.EventQuery{}) {
		if e.Type == kind && e.Status == run.StatusRunning {
			stages = append(stages, e.Stage)
		}
	}
	return stages
}

func testStages(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id, key := fixture.Running(t, s, twoSteps())
	task := func() run.Task { return fixture.Get(t, s, id).Tasks[0] }
	require.Equal(t, run.StagePrepare, task().Stage)

	b := fixture.Batch(key, "x", 1, run.FrameOutput, run.FrameStepStart)
	require.NoError(t, s.ApplyFrames(ctx, b))
	require.NoError(t, s.ApplyFrames(ctx, b), "a repeated batch has no event")
	require.Equal(t, run.StageStep, task().Stage)
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 3, run.FrameStepEnd)))
	require.Equal(t, run.StageStep, task().Stage, "between two steps")
	b = fixture.Batch(key, "x", 4, run.FrameStepStart)
	b.Frames[0].Step, b.Frames[0].Stage = 1, run.StageCleanup
	require.NoError(t, s.ApplyFrames(ctx, b))
	require.Equal(t, run.StageCleanup, task().Stage)
	require.Equal(t, run.StageCleanup, task().Steps[1].Stage)

	// The stages are those of the newest dispatch.
	fixture.ClaimQueued(t, s, run.Key{Run: id, Task: 0, Attempt: 2, Dispatch: 1})
	require.Equal(t, run.StagePrepare, task().Stage)
	require.Len(t, run.StagesOf(new(task())), 1)
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 2, 1, run.StatusSuccess)}})
	require.Empty(t, task().Stage)

	fixture.AwaitEvent(t, s, 9)
	require.Equal(t, []run.Stage{run.StageStep, run.StageCleanup}, stageEvents(t, s, run.EventStage))
	require.Equal(t, []run.Stage{run.StagePrepare, run.StagePrepare}, stageEvents(t, s, run.EventTask))
}

func testStagesInOneBatch(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, key := fixture.Running(t, s, twoSteps())
	b := fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameStepEnd, run.FrameStepStart)
	b.Frames[2].Step, b.Frames[2].Stage = 1, run.StageTransfer
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	_, key = fixture.Running(t, s, twoSteps())
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameStepEnd, run.FrameTaskEnd)))
	fixture.AwaitEvent(t, s, 9)
	require.Equal(t, []run.Stage{run.StageTransfer}, stageEvents(t, s, run.EventStage), "the end of a task is an event of its own")
}

func testStageEvents(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := fixture.OneTask("/a/b")
	const steps = 3 * run.MaxStageEvents
	spec.Tasks["build"].Steps = make([]run.Step, steps)
	for i := range steps {
		spec.Tasks["build"].Steps[i].Run = "true"
	}
	id, key := fixture.Running(t, s, spec)
	for i := range steps {
		b := fixture.Batch(key, "x", int64(i)+1, run.FrameStepStart)
		if b.Frames[0].Step = i; i%2 == 1 {
			b.Frames[0].Stage = run.StageTransfer
		}
		require.NoError(t, s.ApplyFrames(t.Context(), b))
	}
	require.Equal(t, run.StageTransfer, fixture.Get(t, s, id).Tasks[0].Stage)
	fixture.AwaitEvent(t, s, 4+run.MaxStageEvents)
	require.Len(t, stageEvents(t, s, run.EventStage), run.MaxStageEvents)
}

func testFrameBounds(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	b := fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput, run.FrameOutput)
	require.NoError(t, s.ApplyFrames(ctx, b))
	before := fixture.Get(t, s, id)
	require.NoError(t, s.ApplyFrames(ctx, b))
	require.Equal(t, before, fixture.Get(t, s, id))
	fixture.RequireCode(t, run.CodeInvalid, s.ApplyFrames(ctx, fixture.Batch(key, "x", 5, run.FrameOutput)))
	fixture.RequireCode(t, run.CodeInvalid, s.ApplyFrames(ctx, fixture.Batch(key, "x", 2, run.FrameOutput, run.FrameOutput, run.FrameOutput)))
	fixture.RequireCode(t, run.CodeInvalid, s.ApplyFrames(ctx, fixture.Batch(key, "x", 4)))
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 4, run.FrameOutput)))
	list := fixture.Batches(t, s, id, 0, records.BatchRef{})
	require.Equal(t, []records.Batch{{Key: key, Source: key, First: 1, Last: 3}, {Key: key, Source: key, First: 4, Last: 4}}, list)
}

func testFramesNeedClaim(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	unclaimed := run.Key{Run: id, Attempt: 1, Dispatch: 2}
	fixture.RequireCode(t, run.CodeNotFound, s.ApplyFrames(t.Context(), fixture.Batch(unclaimed, "x", 1, run.FrameOutput)))
	fixture.RequireCode(t, run.CodeConflict, s.ApplyFrames(t.Context(), fixture.Batch(key, "y", 1, run.FrameOutput)))
}

func testFramesLate(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusFailed)}, Result: run.ResultFailed, Finish: true})
	before := fixture.Get(t, s, id)
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput, run.FrameStepEnd, run.FrameTaskEnd)))
	require.Equal(t, before, fixture.Get(t, s, id))
	list := fixture.Batches(t, s, id, 0, records.BatchRef{})
	require.Equal(t, []records.Batch{{Key: key, Source: key, First: 1, Last: 4, End: true}}, list)
}

func testBatches(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id, first := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.Empty(t, fixture.Batches(t, s, id, 0, records.BatchRef{}))
	again := run.Key{Run: id, Attempt: 1, Dispatch: 2}
	second := run.Key{Run: id, Attempt: 2, Dispatch: 1}
	for _, key := range []run.Key{first, again, second} {
		fixture.ClaimQueued(t, s, key)
		require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameOutput, run.FrameOutput)))
		require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 3, run.FrameTaskEnd)))
	}
	two := func(key run.Key) []records.Batch {
		return []records.Batch{{Key: key, Source: key, First: 1, Last: 2}, {Key: key, Source: key, First: 3, Last: 3, End: true}}
	}
	for _, c := range []struct {
		attempt int
		after   records.BatchRef
		want    []records.Batch
	}{
		{0, records.BatchRef{}, two(second)},
		{2, records.BatchRef{}, two(second)},
		{1, records.BatchRef{}, append(two(first), two(again)...)},
		{1, records.BatchRef{Key: first, Last: 2}, append(two(first), two(again)...)[1:]},
		{1, records.BatchRef{Key: first, Last: 3}, two(again)},
		{1, records.BatchRef{Key: again, Last: 3}, nil},
		{3, records.BatchRef{}, nil},
	} {
		got := fixture.Batches(t, s, id, c.attempt, c.after)
		require.Equal(t, c.want, got, "%+v", c)
	}
	_, err := s.Batches(ctx, id, 1, 0, records.BatchRef{})
	fixture.RequireCode(t, run.CodeNotFound, err)
}

func testFramesRace(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	wins := fixture.Race(t, 8, func(int) error {
		return s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutputs))
	}, "")
	require.Equal(t, 8, wins)
	list, err := s.Batches(t.Context(), id, 0, 0, records.BatchRef{})
	require.NoError(t, err)
	require.Len(t, list, 1)
}
