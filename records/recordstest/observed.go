package recordstest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func observerTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"notified_once":           testObserverOnce,
		"of_attempts_and_the_end": testObserverAttempts,
		"of_runs_that_never_ran":  testObserverCancelled,
		"of_runs_that_were_lost":  testObserverLost,
		"of_races":                testObserverRace,
	}
}

// recordingObserver records the calls of an observer, with times in whole minutes.
type recordingObserver struct {
	mu    sync.Mutex
	calls []string
}

var _ records.Observer = (*recordingObserver)(nil)

func (w *recordingObserver) record(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, fmt.Sprintf(format, args...))
}

func minutes(d time.Duration) int { return int(d.Round(time.Minute) / time.Minute) }

func (w *recordingObserver) RunStarted(waited time.Duration) {
	w.record("run started %d", minutes(waited))
}

func (w *recordingObserver) RunEnded(phase run.Phase, result run.Result, took time.Duration) {
	w.record("run %s %s %d", phase, result, minutes(took))
}

func (w *recordingObserver) TaskClaimed(pool string, waited time.Duration) {
	w.record("claimed %s %d", pool, minutes(waited))
}

func (w *recordingObserver) TaskEnded(pool string, status run.Status, started bool, took time.Duration) {
	w.record("ended %s %s %t %d", pool, status, started, minutes(took))
}

func (w *recordingObserver) FramesStored(frames int, output bool, lag time.Duration) {
	w.record("frames %d %t %t", frames, output, lag > 0)
}

// take returns the calls since the last take.
func (w *recordingObserver) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	reported := w.calls
	w.calls = nil
	return reported
}

// observedStore opens a store with a witness as its observer.
func observedStore(t *testing.T, d *fixture.Database) (records.Store, *recordingObserver) {
	t.Helper()
	w := &recordingObserver{}
	s := d.Open(t, d.Clock.Now, w)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, w
}

func pooled() *run.Spec {
	spec := fixture.OneTask("/a/b")
	spec.Tasks["build"].Pool = "linux"
	return spec
}

func testObserverOnce(t *testing.T, d *fixture.Database) {
	s, w := observedStore(t, d)
	r := fixture.Create(t, s, pooled())
	require.Empty(t, w.take())
	d.Clock.Advance(2 * time.Minute)
	fixture.Begin(t, s, r.ID)
	fixture.Begin(t, s, r.ID)
	require.Equal(t, []string{"run started 2"}, w.take())

	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	d.Clock.Advance(3 * time.Minute)
	key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	fixture.Claim(t, s, key)
	fixture.Claim(t, s, key)
	require.Equal(t, []string{"claimed linux 3"}, w.take())

	b := fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput, run.FrameOutput)
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	require.NoError(t, s.ApplyFrames(t.Context(), b))
	fixture.RequireCode(t, run.CodeInvalid, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 9, run.FrameOutput)))
	require.NoError(t, s.ApplyFrames(t.Context(), fixture.Batch(key, "x", 4, run.FrameStepEnd)))
	late := fixture.Batch(key, "x", 5, run.FrameOutput) // it is read at the end of the task
	late.Frames[0].Step, late.Frames[0].Stream = run.SetupStep, run.ServiceStream("db")
	require.NoError(t, s.ApplyFrames(t.Context(), late))
	require.Equal(t, []string{"frames 3 true true", "frames 1 false false", "frames 1 false false"}, w.take())

	lost := run.TaskChange{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusRunning, Reason: "executor x out of contact"}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{lost}})
	fixture.Claim(t, s, key)
	require.Empty(t, w.take(), "a repeated claim is not reported")

	d.Clock.Advance(4 * time.Minute)
	end := records.Changes{Tasks: []run.TaskChange{{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusSuccess}}}
	fixture.Apply(t, s, r.ID, end)
	fixture.Apply(t, s, r.ID, end)
	require.Equal(t, []string{"ended linux success true 4"}, w.take())
	d.Clock.Advance(time.Minute)
	finish := records.Changes{Result: run.ResultSuccess, Finish: true}
	fixture.Apply(t, s, r.ID, finish)
	fixture.Apply(t, s, r.ID, finish)
	require.Equal(t, []string{"run finished success 8"}, w.take())
}

func testObserverAttempts(t *testing.T, d *fixture.Database) {
	s, w := observedStore(t, d)
	r := fixture.Create(t, s, pooled())
	fixture.Begin(t, s, r.ID)
	w.take()
	first, second := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}, run.Key{Run: r.ID, Attempt: 2, Dispatch: 1}
	fixture.Claim(t, s, first)
	d.Clock.Advance(5 * time.Minute)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 2, 1)}})
	d.Clock.Advance(time.Minute)
	fixture.Claim(t, s, second)
	d.Clock.Advance(2 * time.Minute)
	// The task's last result and the end of the run come in one transaction.
	fixture.Apply(t, s, r.ID, records.Changes{
		Tasks:  []run.TaskChange{{Task: 0, Attempt: 2, Dispatch: 1, Status: run.StatusFailed}},
		Result: run.ResultFailed, Finish: true,
	})
	require.Equal(t, []string{"claimed linux 0", "claimed linux 1", "ended linux failed true 2", "run finished failed 8"}, w.take())
}

func testObserverCancelled(t *testing.T, d *fixture.Database) {
	s, w := observedStore(t, d)
	r := fixture.Create(t, s, pooled())
	require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
	fixture.RequireCode(t, run.CodeWrongPhase, s.CancelRun(t.Context(), r.ID, nil))
	cancelled := fixture.Get(t, s, r.ID)
	require.Equal(t, []string{
		"ended linux cancelled false 0", fmt.Sprintf("run %s %s 0", cancelled.Phase, cancelled.Result),
	}, w.take())
}

func testObserverLost(t *testing.T, d *fixture.Database) {
	s, w := observedStore(t, d)
	r := fixture.Create(t, s, pooled())
	fixture.Begin(t, s, r.ID)
	fixture.Claim(t, s, run.Key{Run: r.ID, Attempt: 1, Dispatch: 1})
	w.take()
	d.Clock.Advance(time.Minute)
	require.NoError(t, s.CloseLost(t.Context(), r.ID, "terminated"))
	require.NoError(t, s.CloseLost(t.Context(), r.ID, "terminated"))
	require.Equal(t, []string{"ended linux failed true 1", "run finished failed 1"}, w.take())
}

// testObserverRace checks that two stores, as of two processes, notify one of
// their observers once.
func testObserverRace(t *testing.T, d *fixture.Database) {
	one, w1 := observedStore(t, d)
	two, w2 := observedStore(t, d)
	stores := []records.Store{one, two}
	r := fixture.Create(t, one, pooled())
	fixture.Begin(t, one, r.ID)
	key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	fixture.Claim(t, one, key)
	w1.take()
	fixture.Race(t, 8, func(i int) error {
		return stores[i%2].ApplyFrames(t.Context(), fixture.Batch(key, "x", 1, run.FrameOutput))
	}, "")
	require.Equal(t, []string{"frames 1 true true"}, append(w1.take(), w2.take()...))
	end := records.Changes{
		Tasks:  []run.TaskChange{{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusSuccess}},
		Result: run.ResultSuccess, Finish: true,
	}
	fixture.Race(t, 8, func(i int) error {
		_, _, err := stores[i%2].Apply(t.Context(), r.ID, end)
		return err
	}, "")
	require.Equal(t, []string{"ended linux success true 0", "run finished success 0"}, append(w1.take(), w2.take()...))
}
