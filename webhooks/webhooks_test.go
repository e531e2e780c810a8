package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/webhooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 20 * time.Second
	secret   = "correct horse battery staple"
)

// receiver is a real HTTP server that does as it is told.
type receiver struct {
	*httptest.Server
	t testing.TB

	mu     sync.Mutex
	answer http.HandlerFunc // nil: 204
	got    []delivery
}

type delivery struct {
	id     string
	events []int64
	taken  bool
	at     time.Time
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{t: t}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

func (r *receiver) does(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // it broke off
	}
	h := req.Header
	if h.Get(webhooks.HeaderSignature) != webhooks.Sign(secret, h.Get(webhooks.HeaderTimestamp), body) {
		r.t.Errorf("the signature does not fit: %v", h)
	}
	var payload api.WebhookDelivery
	if err := json.Unmarshal(body, &payload); err != nil || payload.Webhook != h.Get(webhooks.HeaderWebhook) {
		r.t.Errorf("the body does not fit: %v: %s", err, body)
	}
	d := delivery{id: h.Get(webhooks.HeaderDelivery), at: time.Now()}
	for _, e := range payload.Events {
		d.events = append(d.events, e.Number)
	}
	r.mu.Lock()
	answer := r.answer
	d.taken = answer == nil
	r.got = append(r.got, d)
	r.mu.Unlock()
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, req)
}

func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]delivery(nil), r.got...)
}

// taken returns the numbers of the events that it took, in order.
func (r *receiver) taken() []int64 {
	var all []int64
	for _, d := range r.deliveries() {
		if d.taken {
			all = append(all, d.events...)
		}
	}
	return all
}

func (r *receiver) awaitTaken(want ...int64) {
	r.t.Helper()
	testenv.Await(r.t, patience, func() (bool, string) {
		got := r.taken()
		return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprintf("taken %v, wanted %v", got, want)
	})
}

func (r *receiver) awaitAttempts(n int) []delivery {
	r.t.Helper()
	testenv.Await(r.t, patience, func() (bool, string) {
		return len(r.deliveries()) >= n, fmt.Sprint(r.deliveries())
	})
	return r.deliveries()
}

// world is a store with events, and the deliveries from it.
type world struct {
	t     *testing.T
	store records.Store
	opts  webhooks.Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &world{t: t, store: store, opts: webhooks.Options{
		Pace: time.Millisecond, Timeout: 5 * time.Second, FirstRetry: 5 * time.Millisecond, LastRetry: 20 * time.Millisecond,
	}}
}

// happen makes events of runs of a group: one for each run.
func (w *world) happen(group string, n int) {
	w.t.Helper()
	for range n {
		w.create(group)
	}
}

func (w *world) create(group string) run.ID {
	w.t.Helper()
	spec := &run.Spec{Name: "one", Group: group, Tasks: map[string]*run.TaskSpec{
		"build": {Pool: "linux", Steps: []run.Step{{Run: "true"}}},
	}}
	x, faults := run.Expand(spec, func(_ string, t *run.TaskSpec) (string, error) { return t.Pool, nil })
	require.Empty(w.t, faults)
	r, err := w.store.CreateRun(w.t.Context(), records.NewRun{Spec: spec, Plan: x.Plan, Tasks: x.Tasks})
	require.NoError(w.t, err)
	return r.ID
}

func (w *world) put(r *receiver, change func(*run.WebhookSpec)) run.Webhook {
	w.t.Helper()
	spec := run.WebhookSpec{Name: "ci", URL: r.URL + "/hook?token=hush", Secret: secret, Enabled: true}
	if change != nil {
		change(&spec)
	}
	require.Empty(w.t, run.ValidateWebhook(spec))
	hook, _, err := w.store.PutWebhook(w.t.Context(), spec)
	require.NoError(w.t, err)
	return hook
}

func (w *world) get() run.Webhook {
	w.t.Helper()
	hook, err := w.store.GetWebhook(w.t.Context(), "ci")
	require.NoError(w.t, err)
	return hook
}

func (w *world) await(wanted func(run.Webhook) bool) run.Webhook {
	w.t.Helper()
	var hook run.Webhook
	testenv.Await(w.t, patience, func() (bool, string) {
		hook = w.get()
		return wanted(hook), fmt.Sprintf("%+v", hook)
	})
	return hook
}

// ending is how Deliver returned.
type ending struct {
	why string
	err error
}

// deliver delivers until the test or stop ends it.
func (w *world) deliver() (ended <-chan ending, stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan ending, 1), make(chan struct{})
	d := webhooks.New(w.store, slog.New(slog.DiscardHandler), w.opts)
	go func() {
		defer close(done)
		why, err := d.Deliver(ctx, "ci")
		out <- ending{why, err}
	}()
	stop = func() {
		cancel()
		<-done
	}
	w.t.Cleanup(stop)
	return out, stop
}

func TestDeliver_in_order(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.opts.Batch = 3
	w.happen("/a/b", 7)
	w.put(r, func(s *run.WebhookSpec) { s.From = "2" })
	w.deliver()
	r.awaitTaken(2, 3, 4, 5, 6, 7)
	got := r.deliveries()
	require.Equal(t, []string{"ci.2-4", "ci.5-7"}, []string{got[0].id, got[1].id})
	w.happen("/a/b", 1)
	r.awaitTaken(2, 3, 4, 5, 6, 7, 8)
	hook := w.await(func(h run.Webhook) bool { return h.Delivered == 8 })
	require.Empty(t, hook.LastError)
	require.WithinDuration(t, time.Now(), hook.LastAttemptAt, time.Minute)
}

func TestDeliver_from_now(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.happen("/a/b", 3)
	w.put(r, nil)
	w.deliver()
	w.happen("/a/b", 1)
	r.awaitTaken(4)
}

func TestDeliver_only_what_is_selected(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*run.WebhookSpec, run.ID)
		want   []int64
	}{
		"all":   {func(*run.WebhookSpec, run.ID) {}, []int64{1, 2, 3, 4, 5}},
		"runs":  {func(s *run.WebhookSpec, _ run.ID) { s.Events = []run.EventType{run.EventRun} }, []int64{1, 2, 3, 5}},
		"tasks": {func(s *run.WebhookSpec, _ run.ID) { s.Events = []run.EventType{run.EventTask} }, []int64{4}},
		"group": {func(s *run.WebhookSpec, _ run.ID) { s.Group = "/a/b" }, []int64{1, 5}},
		"run":   {func(s *run.WebhookSpec, id run.ID) { s.Run = id }, []int64{2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), newReceiver(t)
			w.create("/a/b/c")
			id := w.create("/a/bc")
			_, err := w.store.Begin(t.Context(), id)
			require.NoError(t, err)
			_, _, err = w.store.Apply(t.Context(), id, records.Changes{Tasks: []records.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
			require.NoError(t, err)
			w.create("/a/b")
			w.put(r, func(s *run.WebhookSpec) {
				s.From = "1"
				tt.change(s, id)
			})
			w.deliver()
			r.awaitTaken(tt.want...)
		})
	}
}

// TestDeliver_place_of_what_is_not_selected: where nothing is selected, the
// place moves on all the same.
func TestDeliver_place_of_what_is_not_selected(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.put(r, func(s *run.WebhookSpec) { s.Group, s.From = "/b", "1" })
	w.deliver()
	for range 1001 {
		w.happen("/a/b", 1)
	}
	w.await(func(h run.Webhook) bool { return h.Delivered >= 1000 })
	require.Empty(t, r.deliveries())
	w.happen("/b/c", 1)
	r.awaitTaken(1002)
}

func TestDeliver_tries_again(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	r.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w.put(r, nil)
	w.deliver()
	w.happen("/a/b", 1)
	hook := w.await(func(h run.Webhook) bool { return h.Failures >= 3 })
	require.Contains(t, hook.LastError, "500 Internal Server Error")
	require.Equal(t, int64(0), hook.Delivered)
	require.False(t, hook.NextAttemptAt.IsZero())
	w.happen("/a/b", 2)
	r.does(nil)
	r.awaitTaken(1, 2, 3)
	got := r.deliveries()
	for _, d := range got[:len(got)-1] {
		require.Equal(t, "ci.1-1", d.id, "a batch is tried again as it was")
	}
	hook = w.await(func(h run.Webhook) bool { return h.Delivered == 3 })
	require.Zero(t, hook.Failures)
	require.Empty(t, hook.LastError)
	require.True(t, hook.NextAttemptAt.IsZero())
}

func TestDeliver_backs_off(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.opts.FirstRetry, w.opts.LastRetry = time.Second, 5*time.Minute
	r.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	w.put(r, nil)
	w.happen("/a/b", 1)
	// Each delivery makes the attempt that is due, and is killed.
	for n, least := range []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond} {
		_, stop := w.deliver()
		hook := w.await(func(h run.Webhook) bool { return h.Failures == n+1 })
		stop()
		require.InDelta(t, hook.NextAttemptAt.Sub(hook.LastAttemptAt).Seconds(), least.Seconds()*1.25, least.Seconds()/2)
		// It is due.
		d, err := w.store.TakeWebhook(t.Context(), "ci")
		require.NoError(t, err)
		require.NoError(t, w.store.MoveWebhook(t.Context(), "ci", d.Epoch, d.Version, records.Progression{
			Delivered: d.Delivered, BatchEnd: d.BatchEnd, LastError: d.LastError, Failures: d.Failures,
		}))
	}
	for _, d := range r.deliveries() {
		require.Equal(t, "ci.1-1", d.id)
	}
}

func TestDeliver_waits_as_it_was_told(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header string
		least  time.Duration
		most   time.Duration
	}{
		"seconds":  {"120", 110 * time.Second, 121 * time.Second},
		"a_date":   {time.Now().Add(5 * time.Minute).UTC().Format(http.TimeFormat), 4 * time.Minute, 5 * time.Minute},
		"too_long": {"999999", 59 * time.Minute, 61 * time.Minute},
		"nonsense": {"soon", 0, time.Second},
		"negative": {"-5", 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), newReceiver(t)
			r.does(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			w.put(r, nil)
			w.deliver()
			w.happen("/a/b", 1)
			hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
			pause := hook.NextAttemptAt.Sub(hook.LastAttemptAt)
			require.GreaterOrEqual(t, pause, tt.least)
			require.LessOrEqual(t, pause, tt.most)
		})
	}
}

func TestDeliver_receiver_is_dead(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	dead := newReceiver(t)
	dead.Close()
	w.put(dead, nil)
	w.deliver()
	w.happen("/a/b", 2)
	hook := w.await(func(h run.Webhook) bool { return h.Failures > 1 })
	require.Contains(t, hook.LastError, "no answer: ")
	require.NotContains(t, hook.LastError, "hush", "the URL may hold a password")
	w.put(r, nil) // another address: the same events
	r.awaitTaken(1, 2)
}

func TestDeliver_receiver_hangs(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]http.HandlerFunc{
		"before_it_answers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in_its_answer": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "taken, and ")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), newReceiver(t)
			w.opts.Timeout = 50 * time.Millisecond
			r.does(hang)
			w.put(r, nil)
			w.deliver()
			w.happen("/a/b", 1)
			hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
			require.Contains(t, hook.LastError, "it took too long")
			r.does(nil)
			r.awaitTaken(1)
		})
	}
}

func TestDeliver_receiver_breaks_off(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	r.does(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler) // how a handler cuts its connection
	})
	w.put(r, nil)
	w.deliver()
	w.happen("/a/b", 1)
	w.await(func(h run.Webhook) bool { return h.Failures > 0 })
	r.does(nil)
	r.awaitTaken(1)
}

// TestDeliver_endless_answer: what a receiver says is of no interest, and so is
// how long it is.
func TestDeliver_endless_answer(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	ended := make(chan struct{}, 100)
	r.does(func(w http.ResponseWriter, _ *http.Request) {
		defer func() { ended <- struct{}{} }()
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	})
	w.put(r, nil)
	w.deliver()
	w.happen("/a/b", 1)
	w.await(func(h run.Webhook) bool { return h.Delivered == 1 })
	<-ended
}

func TestDeliver_follows_no_redirect(t *testing.T) {
	t.Parallel()
	w, r, other := newWorld(t), newReceiver(t), newReceiver(t)
	r.does(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
	})
	w.put(r, nil)
	w.deliver()
	w.happen("/a/b", 1)
	hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
	require.Contains(t, hook.LastError, "307")
	require.Empty(t, other.deliveries())
}

func TestDeliver_changes_take_effect_at_once(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, change := range map[string]struct {
		do  func(w *world, other *receiver)
		why string
	}{
		"deleted":  {func(w *world, _ *receiver) { require.NoError(w.t, w.store.DeleteWebhook(w.t.Context(), "ci")) }, "the webhook was deleted"},
		"disabled": {func(w *world, r *receiver) { w.put(r, func(s *run.WebhookSpec) { s.Enabled = false }) }, "the webhook is disabled"},
		"moved":    {func(w *world, other *receiver) { w.put(other, nil) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r, other := newWorld(t), newReceiver(t), newReceiver(t)
			w.opts.Timeout = time.Hour
			r.does(hang)
			w.put(r, nil)
			ended, _ := w.deliver()
			w.happen("/a/b", 1)
			r.awaitAttempts(1)
			change.do(w, other)
			if change.why == "" {
				other.awaitTaken(1)
				return
			}
			require.Equal(t, ending{why: change.why}, <-ended)
			require.Empty(t, other.deliveries())
		})
	}
}

func TestDeliver_backlog_is_tried_at_once_after_a_change(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.opts.FirstRetry, w.opts.LastRetry = time.Hour, time.Hour
	r.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w.put(r, nil)
	w.deliver()
	w.happen("/a/b", 1)
	w.await(func(h run.Webhook) bool { return h.Failures == 1 })
	r.does(nil)
	w.put(r, nil)
	r.awaitTaken(1)
}

func TestDeliver_goes_back(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.put(r, nil)
	w.deliver()
	w.happen("/a/b", 3)
	w.await(func(h run.Webhook) bool { return h.Delivered == 3 })
	w.put(r, func(s *run.WebhookSpec) { s.From = "2" })
	testenv.Await(t, patience, func() (bool, string) {
		got := fmt.Sprint(r.taken())
		return strings.HasSuffix(got, "2 3]") && len(r.taken()) == 5, got
	})
}

// TestDeliver_events_are_removed: what was removed is left out, and told.
func TestDeliver_events_are_removed(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	r.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w.put(r, nil)
	w.happen("/a/b", 5)
	_, stop := w.deliver()
	w.await(func(h run.Webhook) bool { return h.Failures > 0 })
	stop()
	removed, err := w.store.RemoveEvents(t.Context(), records.KeepEvents{Newest: 2}, 100)
	require.NoError(t, err)
	require.Equal(t, 3, removed)
	// A receiver that does not answer leaves what was told of the removal.
	r.does(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	_, stop = w.deliver()
	hook := w.await(func(h run.Webhook) bool { return h.Delivered == 3 })
	require.Contains(t, hook.LastError, "events 1 to 3 were removed")
	stop()
	w.put(r, nil)
	r.does(nil)
	w.deliver()
	w.await(func(h run.Webhook) bool { return h.Delivered == 5 })
	got := fmt.Sprint(r.taken()) // an attempt given up before may have arrived late
	require.True(t, strings.HasSuffix(got, "4 5]"), got)
}

// TestDeliver_is_taken_over: of two only the one that came last goes on.
func TestDeliver_is_taken_over(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.put(r, nil)
	first, _ := w.deliver()
	w.happen("/a/b", 1)
	r.awaitTaken(1)
	_, err := w.store.TakeWebhook(t.Context(), "ci")
	require.NoError(t, err)
	w.happen("/a/b", 1)
	require.Equal(t, ending{why: "another delivers the webhook"}, <-first)
}

func TestDeliver_never_existed(t *testing.T) {
	t.Parallel()
	ended, _ := newWorld(t).deliver()
	require.Equal(t, ending{why: "the webhook was deleted"}, <-ended)
}

// TestDeliver_killed_at_random: nothing is skipped, and order is kept, however
// often whoever delivers is killed and whatever the receiver does.
func TestDeliver_killed_at_random(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.opts.Batch = 4
	w.put(r, nil)
	writing := make(chan struct{})
	const all = 200
	go func() {
		defer close(writing)
		w.happen("/a/b", all)
	}()
	for round := 0; ; round++ {
		if round%3 == 2 {
			r.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		} else {
			r.does(nil)
		}
		_, stop := w.deliver()
		before := len(r.deliveries())
		r.awaitAttempts(before + 1 + round%3)
		stop()
		if w.get().Delivered == all {
			break
		}
		if w.get().Delivered > all-20 {
			<-writing
			w.put(r, nil) // at once
			r.does(nil)
			w.deliver()
			w.await(func(h run.Webhook) bool { return h.Delivered == all })
			break
		}
	}
	<-writing
	next := int64(1)
	for _, n := range r.taken() {
		require.LessOrEqual(t, n, next, "event %d was skipped", next)
		next = max(next, n+1)
	}
	require.Equal(t, int64(all+1), next)
}

func TestSign(t *testing.T) {
	t.Parallel()
	// printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 'correct horse battery staple'
	require.Equal(t, "v1=c0385f8b18e8d1ac37a3c0d93fa81ef49dc339ee11bf4170c61942141ce6cd98",
		webhooks.Sign(secret, "1700000000", []byte(`{"a":1}`)))
}
