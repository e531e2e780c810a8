package activities_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// fakeStore is a fake of a store with expired data.
type fakeStore struct {
	now          time.Time
	callDuration time.Duration // duration of a call
	left         map[run.RetentionKind]int
	asked        []any // the arguments of the calls
	batches      []int // the sizes of the batches
	err          error
}

func (s *fakeStore) clock() time.Time { return s.now }

func (s *fakeStore) take(kind run.RetentionKind, n int, ask any) int {
	s.now = s.now.Add(s.callDuration)
	if len(s.asked) == 0 || s.asked[len(s.asked)-1] != ask {
		s.asked = append(s.asked, ask)
	}
	s.batches = append(s.batches, n)
	n = min(n, s.left[kind])
	s.left[kind] -= n
	return n
}

func (s *fakeStore) ExpireLogs(_ context.Context, before time.Time, n int) (records.ExpiredLogs, error) {
	n = s.take(run.RetentionLogs, n, before)
	return records.ExpiredLogs{Runs: n, Bytes: int64(n) * 10}, s.err
}

func (s *fakeStore) ExpireArchives(_ context.Context, kind run.ArchiveKind, keep run.ArchiveRetention, n int) (records.Expired, error) {
	done := s.take(kind.Retention(), n, keep)
	return records.Expired{Archives: done, Bytes: int64(done) * 10, More: done == n}, s.err
}

// DeleteRuns deletes at the rate that the query sets, as a store does.
func (s *fakeStore) DeleteRuns(ctx context.Context, q run.DeleteQuery) (out run.Deleted, _ error) {
	pace := q.Throttle
	q.Throttle = nil
	s.asked = append(s.asked, q.Before, q.Keep)
	for ; s.left[run.RetentionRuns] > 0; s.left[run.RetentionRuns]-- {
		if out.Runs == run.MaxDelete {
			out.More = true
			break
		}
		if err := pace(ctx); err != nil {
			return out, err
		}
		s.now = s.now.Add(s.callDuration)
		out.Runs++
	}
	return out, s.err
}

func (s *fakeStore) RemoveEvents(_ context.Context, keep records.KeepEvents, n int) (int, error) {
	return s.take(run.RetentionEvents, n, keep), s.err
}

func newFakeStore(kind run.RetentionKind, n int) *fakeStore {
	return &fakeStore{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), left: map[run.RetentionKind]int{kind: n}}
}

// callActivity calls the activity of a kind, and returns its result.
func callActivity(t *testing.T, kind run.RetentionKind, a *activities.Retention, perSecond int) (n int, more bool, err error) {
	t.Helper()
	hour := run.Duration(time.Hour)
	switch kind {
	case run.RetentionLogs:
		out, err := a.ExpireLogs(t.Context(), contract.ExpireLogsInput{Keep: run.LogRetention{MaxAge: hour}, PerSecond: perSecond})
		return out.Runs, out.More, err
	case run.RetentionRuns:
		out, err := a.DeleteRuns(t.Context(), contract.DeleteRunsInput{Keep: run.RunsRetention{MaxAge: hour, Keep: 3}, PerSecond: perSecond})
		return out.Deleted, out.More, err
	case run.RetentionEvents:
		out, err := a.RemoveEvents(t.Context(), contract.RemoveEventsInput{MaxAge: hour, Newest: 7, PerSecond: perSecond})
		return out.Removed, out.More, err
	case run.RetentionWorkspaces, run.RetentionArtifacts, run.RetentionCaches:
		archive := map[run.RetentionKind]run.ArchiveKind{
			run.RetentionWorkspaces: run.ArchiveWorkspace, run.RetentionArtifacts: run.ArchiveArtifact, run.RetentionCaches: run.ArchiveCache,
		}[kind]
		out, err := a.ExpireArchives(t.Context(), contract.ExpireArchivesInput{
			Kind: archive, Keep: run.ArchiveRetention{Workspaces: hour}, PerSecond: perSecond,
		})
		return out.Archives, out.More, err
	}
	t.Fatalf("%s is no kind", kind)
	return 0, false, nil
}

func counters(t *testing.T, m *activities.RetentionMetrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			if v := x.GetCounter().GetValue(); v != 0 {
				all[f.GetName()+" "+x.GetLabel()[0].GetValue()] = v
			}
		}
	}
	problems, err := testutil.CollectAndLint(m)
	require.NoError(t, err)
	require.Empty(t, problems)
	return all
}

// TestRetention removes all expired data of a kind, in small steps, and counts
// it.
func TestRetention(t *testing.T) {
	t.Parallel()
	for _, kind := range run.RetentionKinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newFakeStore(kind, 2_345)
			m := activities.NewRetentionMetrics()
			a := activities.NewRetention(s, m, s.clock)
			all := 0
			for more := true; more; {
				n, left, err := callActivity(t, kind, a, 0)
				require.NoError(t, err)
				require.True(t, !left || kind == run.RetentionRuns, "of runs alone there are at most a thousand in a call")
				all += n
				more = left
			}
			require.Equal(t, 2_345, all)
			want := map[string]float64{"drover_retention_removed_total " + string(kind): 2_345}
			switch kind {
			case run.RetentionRuns:
			case run.RetentionEvents:
				require.LessOrEqual(t, slices.Max(s.batches), 1_000)
			default:
				want["drover_retention_removed_bytes_total "+string(kind)] = 23_450
				require.LessOrEqual(t, slices.Max(s.batches), 50)
			}
			require.Equal(t, want, counters(t, m))
			before := s.now.Add(-time.Hour)
			require.Subset(t, map[run.RetentionKind][]any{
				run.RetentionLogs: {before}, run.RetentionRuns: {before, 3}, run.RetentionEvents: {records.KeepEvents{Since: before, Newest: 7}},
				run.RetentionWorkspaces: {run.ArchiveRetention{Workspaces: run.Duration(time.Hour)}},
				run.RetentionArtifacts:  {run.ArchiveRetention{Workspaces: run.Duration(time.Hour)}},
				run.RetentionCaches:     {run.ArchiveRetention{Workspaces: run.Duration(time.Hour)}},
			}[kind], s.asked)
		})
	}
}

// TestRetention_returns_in_time: the activity returns after some seconds, with
// something removed, so that the workflow can handle its signals.
func TestRetention_returns_in_time(t *testing.T) {
	t.Parallel()
	for _, kind := range run.RetentionKinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newFakeStore(kind, 100_000)
			s.callDuration = 3 * time.Second
			n, more, err := callActivity(t, kind, activities.NewRetention(s, nil, s.clock), 0)
			require.NoError(t, err)
			require.True(t, more)
			require.Equal(t, 100_000-s.left[kind], n)
			require.Equal(t, 12*time.Second, s.now.Sub(newFakeStore(kind, 0).now), "four calls of three seconds")
		})
	}
}

// TestRetention_keeps_to_the_rate removes twelve items at fifty per second;
// events are counted in hundreds.
func TestRetention_keeps_to_the_rate(t *testing.T) {
	t.Parallel()
	for _, kind := range run.RetentionKinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			want := 12
			if kind == run.RetentionEvents {
				want *= 100
			}
			s := newFakeStore(kind, want)
			begin := time.Now()
			n, more, err := callActivity(t, kind, activities.NewRetention(s, nil, s.clock), 50)
			require.NoError(t, err)
			require.False(t, more)
			require.Equal(t, want, n)
			require.GreaterOrEqual(t, time.Since(begin), 220*time.Millisecond)
		})
	}
}

func TestRetention_fails(t *testing.T) {
	t.Parallel()
	for _, kind := range run.RetentionKinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newFakeStore(kind, 5)
			s.err = run.Errorf(run.CodeUnavailable, "away")
			m := activities.NewRetentionMetrics()
			_, _, err := callActivity(t, kind, activities.NewRetention(s, m, s.clock), 0)
			require.Equal(t, run.CodeUnavailable, run.CodeOf(errcode.FromTemporal(err)))
			got := counters(t, m)
			require.InDelta(t, 1, got["drover_retention_failures_total "+string(kind)], 0)
			require.InDelta(t, 5, got["drover_retention_removed_total "+string(kind)], 0, "what was done counts")
		})
	}
}

func TestRetention_needs_bounds(t *testing.T) {
	t.Parallel()
	s := newFakeStore(run.RetentionRuns, 5)
	a := activities.NewRetention(s, nil, s.clock)
	_, err := a.DeleteRuns(t.Context(), contract.DeleteRunsInput{})
	require.Equal(t, run.CodeInvalid, run.CodeOf(errcode.FromTemporal(err)), "that would be all of them")
	_, err = a.ExpireLogs(t.Context(), contract.ExpireLogsInput{})
	require.Equal(t, run.CodeInvalid, run.CodeOf(errcode.FromTemporal(err)))
	require.Empty(t, s.asked)
}

func TestRetention_stops_with_its_worker(t *testing.T) {
	t.Parallel()
	s := newFakeStore(run.RetentionLogs, 5)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the worker was stopped"))
	m := activities.NewRetentionMetrics()
	a := activities.NewRetention(s, m, s.clock)
	_, err := a.ExpireLogs(ctx, contract.ExpireLogsInput{Keep: run.LogRetention{MaxAge: 1}, PerSecond: 1})
	require.Error(t, err)
	require.Empty(t, counters(t, m), "that is no failure")
}
