package recordstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func frameTests() map[string]func(t *testing.T, d *database) {
	return map[string]func(t *testing.T, d *database){
		"record_steps_and_outputs":    testFrames,
		"are_idempotent_and_gapless":  testFrameBounds,
		"need_a_claim":                testFramesNeedClaim,
		"after_the_end_are_only_kept": testFramesLate,
		"batches_are_listed":          testBatches,
		"sent_twice_at_once":          testFramesRace,
	}
}

func twoSteps() *run.Spec {
	spec := oneTask("/a/b")
	spec.Tasks["build"].Steps = []run.Step{{Run: "true"}, {Name: "two", Run: "true"}}
	return spec
}

func testFrames(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	id, key := running(t, s, twoSteps())
	before := get(t, s, id)

	require.NoError(t, s.ApplyFrames(ctx, batch(key, "x", 1, run.FrameOutput)))
	require.Equal(t, before, get(t, s, id), "output frames change no state")

	b := batch(key, "x", 2, run.FrameStepStart, run.FrameStepEnd, run.FrameStepStart, run.FrameOutputs)
	b.Frames[2].Step = 1
	require.NoError(t, s.ApplyFrames(ctx, b))
	got := get(t, s, id)
	require.Greater(t, got.Version, before.Version)
	code := 0
	require.Equal(t, []run.StepState{
		{Type: "run", StepResult: run.StepResult{Status: run.StatusSuccess, ExitCode: &code, Started: b.Frames[0].Time, Ended: b.Frames[1].Time}},
		{Name: "two", Type: "run", StepResult: run.StepResult{Status: run.StatusRunning, Started: b.Frames[2].Time}},
	}, got.Tasks[0].Steps)
	require.Equal(t, map[string]string{"n5": "v"}, got.Tasks[0].Outputs)
	require.Equal(t, run.StatusRunning, got.Tasks[0].Status)

	more := batch(key, "x", 6, run.FrameOutputs, run.FrameTaskEnd)
	require.NoError(t, s.ApplyFrames(ctx, more))
	got = get(t, s, id)
	require.Equal(t, map[string]string{"n5": "v", "n6": "v"}, got.Tasks[0].Outputs)
	require.Equal(t, run.StatusRunning, got.Tasks[0].Status, "the workflow writes the end")
}

func testFrameBounds(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	id, key := running(t, s, oneTask("/a/b"))
	b := batch(key, "x", 1, run.FrameStepStart, run.FrameOutput, run.FrameOutput)
	require.NoError(t, s.ApplyFrames(ctx, b))
	before := get(t, s, id)
	require.NoError(t, s.ApplyFrames(ctx, b))
	require.Equal(t, before, get(t, s, id))
	requireCode(t, run.CodeInvalid, s.ApplyFrames(ctx, batch(key, "x", 5, run.FrameOutput)))
	requireCode(t, run.CodeInvalid, s.ApplyFrames(ctx, batch(key, "x", 2, run.FrameOutput, run.FrameOutput, run.FrameOutput)))
	requireCode(t, run.CodeInvalid, s.ApplyFrames(ctx, batch(key, "x", 4)))
	require.NoError(t, s.ApplyFrames(ctx, batch(key, "x", 4, run.FrameOutput)))
	list := batches(t, s, id, 0, records.BatchRef{})
	require.Equal(t, []records.Batch{{Key: key, Source: key, First: 1, Last: 3}, {Key: key, Source: key, First: 4, Last: 4}}, list)
}

// batches returns the batches of task 0, without their outlines.
func batches(t *testing.T, s records.Store, id run.ID, attempt int, after records.BatchRef) []records.Batch {
	t.Helper()
	list, err := s.Batches(t.Context(), id, 0, attempt, after)
	require.NoError(t, err)
	for i := range list {
		require.Equal(t, list[i].Packed, list[i].Outline == nil)
		list[i].Outline = nil
	}
	return list
}

func testFramesNeedClaim(t *testing.T, d *database) {
	s := d.store(t)
	id, key := running(t, s, oneTask("/a/b"))
	unclaimed := run.Key{Run: id, Attempt: 1, Dispatch: 2}
	requireCode(t, run.CodeNotFound, s.ApplyFrames(t.Context(), batch(unclaimed, "x", 1, run.FrameOutput)))
	requireCode(t, run.CodeConflict, s.ApplyFrames(t.Context(), batch(key, "y", 1, run.FrameOutput)))
}

func testFramesLate(t *testing.T, d *database) {
	s := d.store(t)
	id, key := running(t, s, oneTask("/a/b"))
	apply(t, s, id, records.Changes{Tasks: []run.TaskChange{ended(0, 1, 1, run.StatusFailed)}, Result: run.ResultFailed, Finish: true})
	before := get(t, s, id)
	require.NoError(t, s.ApplyFrames(t.Context(), batch(key, "x", 1, run.FrameStepStart, run.FrameOutput, run.FrameStepEnd, run.FrameTaskEnd)))
	require.Equal(t, before, get(t, s, id))
	list := batches(t, s, id, 0, records.BatchRef{})
	require.Equal(t, []records.Batch{{Key: key, Source: key, First: 1, Last: 4, End: true}}, list)
}

func testBatches(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	id, first := running(t, s, oneTask("/a/b"))
	require.Empty(t, batches(t, s, id, 0, records.BatchRef{}))
	again := run.Key{Run: id, Attempt: 1, Dispatch: 2}
	second := run.Key{Run: id, Attempt: 2, Dispatch: 1}
	for _, key := range []run.Key{first, again, second} {
		claimQueued(t, s, key)
		require.NoError(t, s.ApplyFrames(ctx, batch(key, "x", 1, run.FrameOutput, run.FrameOutput)))
		require.NoError(t, s.ApplyFrames(ctx, batch(key, "x", 3, run.FrameTaskEnd)))
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
		got := batches(t, s, id, c.attempt, c.after)
		require.Equal(t, c.want, got, "%+v", c)
	}
	_, err := s.Batches(ctx, id, 1, 0, records.BatchRef{})
	requireCode(t, run.CodeNotFound, err)
}

func testFramesRace(t *testing.T, d *database) {
	s := d.store(t)
	id, key := running(t, s, oneTask("/a/b"))
	wins := race(t, 8, func(int) error {
		return s.ApplyFrames(t.Context(), batch(key, "x", 1, run.FrameStepStart, run.FrameOutputs))
	}, "")
	require.Equal(t, 8, wins)
	list, err := s.Batches(t.Context(), id, 0, 0, records.BatchRef{})
	require.NoError(t, err)
	require.Len(t, list, 1)
}
