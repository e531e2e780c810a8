package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/auditlog"
)

// fakeLog is a log in memory. A field err makes its calls fail.
type fakeLog struct {
	mu      sync.Mutex
	records map[string]auditlog.Record
	batches []int
	err     func([]auditlog.Record) error
	slow    time.Duration
}

func (f *fakeLog) AppendAudit(_ context.Context, all []auditlog.Record) error {
	<-time.After(f.slow)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		if err := f.err(all); err != nil {
			return err
		}
	}
	f.batches = append(f.batches, len(all))
	for _, r := range all {
		if f.records[r.ID].Status == 0 {
			f.records[r.ID] = r
		}
	}
	return nil
}

func (f *fakeLog) ListAudit(context.Context, auditlog.Query) (auditlog.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []auditlog.Record
	for _, id := range slices.Sorted(maps.Keys(f.records)) {
		all = append(all, f.records[id])
	}
	return auditlog.Page{Records: all}, nil
}

func (f *fakeLog) fail(err func([]auditlog.Record) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeLog) all(t *testing.T) []auditlog.Record {
	t.Helper()
	page, err := f.ListAudit(t.Context(), auditlog.Query{})
	require.NoError(t, err)
	return page.Records
}

// running starts a recorder, and returns a function that stops it.
func running(t *testing.T) (r *Recorder, log *fakeLog, stop func()) {
	t.Helper()
	log = &fakeLog{records: map[string]auditlog.Record{}}
	r, err := NewRecorder(log, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return r, log, sync.OnceFunc(func() { cancel(); require.NoError(t, <-done) })
}

func newRecord(action string) auditlog.Record {
	now := time.Now()
	return auditlog.Record{ID: newID(now), Time: now, Until: now, Count: 1, Action: action, Result: auditlog.Unknown}
}

func ended(r auditlog.Record) auditlog.Record {
	r.Result, r.Status = auditlog.Success, 200
	return r
}

func TestRecorder_shares_transactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, log, stop := running(t)
		log.slow = time.Second
		synctest.Wait()
		var calls sync.WaitGroup
		for range 40 {
			calls.Go(func() {
				record := newRecord("stopRun")
				require.NoError(t, r.begin(t.Context(), record))
				r.finish(t.Context(), ended(record))
			})
		}
		calls.Wait()
		require.NoError(t, r.flush(t.Context()))
		require.LessOrEqual(t, len(log.batches), 5)
		require.Len(t, log.all(t), 40)
		for _, record := range log.all(t) {
			require.Equal(t, auditlog.Success, record.Result)
		}
		stop()
	})
}

// A call whose record cannot be written must not begin. The result of one that has
// begun is written as soon as possible.
func TestRecorder_store_is_down(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, log, stop := running(t)
		defer stop()
		before := newRecord("stopRun")
		require.NoError(t, r.begin(t.Context(), before))
		log.fail(func([]auditlog.Record) error { return run.Errorf(run.CodeUnavailable, "down") })
		r.finish(t.Context(), ended(before))
		require.Equal(t, run.CodeUnavailable, run.CodeOf(r.begin(t.Context(), newRecord("stopRun"))))
		<-time.After(time.Minute)
		log.fail(nil)
		<-time.After(2 * retryPause)
		synctest.Wait()
		require.Equal(t, []auditlog.Record{ended(before)}, log.all(t))
		require.Zero(t, testutil.ToFloat64(r.metrics.lost))
		require.Positive(t, testutil.ToFloat64(r.metrics.failures))
	})
}

func TestRecorder_bounds_its_memory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, log, stop := running(t)
		defer stop()
		log.fail(func([]auditlog.Record) error { return run.Errorf(run.CodeUnavailable, "down") })
		for range maxQueue + 500 {
			r.finish(t.Context(), ended(newRecord("stopRun")))
		}
		<-time.After(time.Minute)
		synctest.Wait()
		require.InDelta(t, 500, testutil.ToFloat64(r.metrics.lost), maxBatch)
		log.fail(nil)
		<-time.After(time.Minute)
		synctest.Wait()
		require.InDelta(t, maxQueue, len(log.all(t)), maxBatch)
	})
}

// One record that the store refuses does not keep others from being written.
func TestRecorder_bad_record(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, log, stop := running(t)
		defer stop()
		log.slow = time.Second
		log.fail(func(all []auditlog.Record) error {
			if slices.ContainsFunc(all, func(r auditlog.Record) bool { return r.Action == "bad" }) {
				return errors.New("it cannot be stored")
			}
			return nil
		})
		good := newRecord("good")
		r.finish(t.Context(), ended(newRecord("first")))
		r.finish(t.Context(), ended(newRecord("bad")))
		require.NoError(t, r.begin(t.Context(), good))
		require.Error(t, r.begin(t.Context(), newRecord("bad")))
		require.Len(t, log.all(t), 2)
		require.InDelta(t, 1, testutil.ToFloat64(r.metrics.lost), 0)
	})
}

func TestRecorder_writes_the_rest_when_it_stops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, log, stop := running(t)
		for range refusalBurst + 3 {
			r.refuse(t.Context(), refusal("192.0.2.1", ""))
		}
		r.finish(t.Context(), ended(newRecord("stopRun")))
		stop()
		require.Len(t, log.all(t), refusalBurst+2)
		record := newRecord("late")
		require.NoError(t, r.begin(t.Context(), record))
		r.finish(t.Context(), ended(record))
		require.Len(t, log.all(t), refusalBurst+3, "calls after the end write for themselves")
	})
}

// What cannot be written at the end is logged and counted, and no call waits for it.
func TestRecorder_loses_the_rest_when_it_stops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, log, stop := running(t)
		log.fail(func([]auditlog.Record) error { return run.Errorf(run.CodeUnavailable, "the store is down") })
		const n = 3*maxBatch + 1
		for range n {
			r.finish(t.Context(), ended(newRecord("stopRun")))
		}
		synctest.Wait() // Run has tried, and waits for its next try
		begun := make(chan error, 1)
		r.mu.Lock() // Run cannot take the entry before it stops
		r.queue = append(r.queue, entry{record: newRecord("startRun"), done: begun})
		r.mu.Unlock()
		stop()
		require.Equal(t, run.CodeUnavailable, run.CodeOf(<-begun))
		require.InDelta(t, n, testutil.ToFloat64(r.metrics.lost), 0)
		require.Empty(t, log.all(t))
	})
}

func refusal(remote, subject string) auditlog.Record {
	r := newRecord("listRuns")
	r.Remote, r.Subject, r.Token, r.Result, r.Status, r.Code = remote, subject, subject, auditlog.Refused, 401, run.CodeUnauthenticated
	return r
}

// A flood of refusals costs few records, and none is uncounted.
func TestRecorder_floods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, log, stop := running(t)
		defer stop()
		synctest.Wait()
		begun := time.Now()
		for i := range 5_000 {
			if i == 2_500 {
				<-time.After(time.Second)
			}
			r.refuse(t.Context(), refusal("192.0.2.1", ""))
			r.refuse(t.Context(), refusal(fmt.Sprintf("2001:db8::%x", i), "ci")) // one network
		}
		<-time.After(refusalWindow)
		synctest.Wait()
		all := log.all(t)
		require.Len(t, all, 2*refusalBurst+2)
		requests := map[string]int{}
		for _, record := range all {
			requests[record.Subject] += record.Count
			if record.Count > 1 {
				require.Equal(t, 5_000-refusalBurst, record.Count)
				require.Equal(t, begun.Add(time.Second), record.Until)
				require.Equal(t, auditlog.Refused, record.Result)
				require.Equal(t, 401, record.Status)
				require.Equal(t, record.Subject == "", record.Remote == "192.0.2.1")
			}
		}
		require.Equal(t, map[string]int{"": 5_000, "ci": 5_000}, requests)

		r.refuse(t.Context(), refusal("192.0.2.1", ""))
		require.NoError(t, r.flush(t.Context()))
		require.Len(t, log.all(t), 2*refusalBurst+3, "the next window begins with single records")
	})
}

func TestRecorder_floods_from_many_addresses(t *testing.T) {
	t.Parallel()
	f := newRefusals()
	single, n := 0, 20_000
	for i := range n {
		if !f.merge(refusal(fmt.Sprintf("10.%d.%d.1", i/250, i%250), "")) {
			single++
		}
	}
	require.Equal(t, refusalTotal, single)
	merged := f.take()
	require.LessOrEqual(t, len(merged), maxAddresses+1)
	total := single
	for _, r := range merged {
		total += r.Count
	}
	require.Equal(t, n, total)
	require.Empty(t, f.take())
}

func TestClean(t *testing.T) {
	t.Parallel()
	r := newRecord("x")
	r.Resource.ID, r.Remote = "a\x00b\xff"+string(make([]byte, 2*maxText)), "ok"
	r = clean(r)
	require.Equal(t, "ab", r.Resource.ID)
	require.Equal(t, "ok", r.Remote)
}

// Details that are too long stay JSON, say what is left out, and keep something of each part.
func TestClean_details(t *testing.T) {
	t.Parallel()
	groups := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("/project/%d/**", i))
		}
		return all
	}
	grants := func(n, patterns int) (all []api.RoleGrant) {
		for i := range n {
			all = append(all, api.RoleGrant{Members: fmt.Sprintf("team-%d", i), Role: "viewer", Groups: groups(patterns)})
		}
		all[n-1].Role = "admin"
		return all
	}
	tests := map[string]struct {
		rights any
		want   []string
	}{
		"short":                {rights: grants(3, 2), want: []string{`"/project/1/**"`, `"admin"`}},
		"many_patterns":        {rights: grants(50, 50), want: []string{`"team-0"`, `"team-49"`, `"admin"`, `"/project/0/**"`, `of 50 left out"`}},
		"many_grants":          {rights: grants(run.MaxRoleGrants, 50), want: []string{`"team-0"`, `of 200 left out"`}},
		"a_token":              {rights: api.TokenSpec{Name: "ci", Bindings: []api.RoleBinding{{Role: "viewer", Groups: groups(2000)}, {Role: "admin", Groups: []string{"/**"}}}}, want: []string{`"ci"`, `"admin"`, `"/**"`, `of 2000 left out"`}},
		"a_long_text":          {rights: map[string]string{"name": "x" + strings.Repeat("\u00e9", maxDetails)}, want: []string{`"xé`, `bytes left out"`}},
		"a_text_to_be_escaped": {rights: []string{strings.Repeat("\x01\"", maxDetails)}, want: []string{`bytes left out"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.Marshal(tt.rights)
			require.NoError(t, err)
			r := newRecord("createToken")
			r.Details = string(text)
			got := clean(r).Details
			require.True(t, json.Valid([]byte(got)), "it ends with %s", got[max(0, len(got)-200):])
			require.LessOrEqual(t, len(got), maxDetails)
			for _, part := range tt.want {
				require.Contains(t, got, part)
			}
			r.Details = got
			require.Equal(t, got, clean(r).Details, "what was cut is not cut again")
		})
	}
}
