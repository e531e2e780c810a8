package webhooks_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func TestDeliver_tries_again(t *testing.T) {
	t.Parallel()
	w, r := newEnv(t), newReceiver(t)
	r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w.put(r, nil)
	w.deliver()
	w.createEvents("/a/b", 1)
	hook := w.await(func(h run.Webhook) bool { return h.Failures >= 3 })
	require.Contains(t, hook.LastError, "500 Internal Server Error")
	require.Equal(t, int64(0), hook.Delivered)
	require.False(t, hook.NextAttemptAt.IsZero())
	w.createEvents("/a/b", 2)
	r.setAnswer(nil)
	r.awaitAccepted(1, 2, 3)
	got := r.deliveries()
	for _, d := range got[:len(got)-1] {
		require.Equal(t, "ci.1-1", d.id, "a batch is retried unchanged")
	}
	hook = w.await(func(h run.Webhook) bool { return h.Delivered == 3 })
	require.Zero(t, hook.Failures)
	require.Empty(t, hook.LastError)
	require.True(t, hook.NextAttemptAt.IsZero())
}

func TestDeliver_backs_off(t *testing.T) {
	t.Parallel()
	w, r := newEnv(t), newReceiver(t)
	w.opts.FirstRetry, w.opts.LastRetry = time.Second, 5*time.Minute
	r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	w.put(r, nil)
	w.createEvents("/a/b", 1)
	// Each deliverer makes the attempt that is due, and is then killed.
	for n, least := range []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond} {
		_, stop := w.deliver()
		hook := w.await(func(h run.Webhook) bool { return h.Failures == n+1 })
		stop()
		require.InDelta(t, hook.NextAttemptAt.Sub(hook.LastAttemptAt).Seconds(), least.Seconds()*1.25, least.Seconds()/2)
		// Make the next attempt due now.
		d, err := w.store.AcquireWebhook(t.Context(), "ci")
		require.NoError(t, err)
		require.NoError(t, w.store.AdvanceWebhook(t.Context(), "ci", d.Epoch, d.Version, records.DeliveryProgress{
			Delivered: d.Delivered, BatchEnd: d.BatchEnd, LastError: d.LastError, Failures: d.Failures,
		}))
	}
	for _, d := range r.deliveries() {
		require.Equal(t, "ci.1-1", d.id)
	}
}

func TestDeliver_respects_retry_after(t *testing.T) {
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
			w, r := newEnv(t), newReceiver(t)
			r.setAnswer(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			w.put(r, nil)
			w.deliver()
			w.createEvents("/a/b", 1)
			hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
			pause := hook.NextAttemptAt.Sub(hook.LastAttemptAt)
			require.GreaterOrEqual(t, pause, tt.least)
			require.LessOrEqual(t, pause, tt.most)
		})
	}
}

func TestDeliver_receiver_is_dead(t *testing.T) {
	t.Parallel()
	w, r := newEnv(t), newReceiver(t)
	dead := newReceiver(t)
	dead.Close()
	w.put(dead, nil)
	w.deliver()
	w.createEvents("/a/b", 2)
	hook := w.await(func(h run.Webhook) bool { return h.Failures > 1 })
	require.Contains(t, hook.LastError, "no answer: ")
	require.NotContains(t, hook.LastError, "sesame", "the URL may hold a password")
	w.put(r, nil) // another address: the same events
	r.awaitAccepted(1, 2)
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
			w, r := newEnv(t), newReceiver(t)
			w.opts.Timeout = 50 * time.Millisecond
			r.setAnswer(hang)
			w.put(r, nil)
			w.deliver()
			w.createEvents("/a/b", 1)
			hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
			require.Contains(t, hook.LastError, "timeout")
			r.setAnswer(nil)
			r.awaitAccepted(1)
		})
	}
}

func TestDeliver_connection_breaks(t *testing.T) {
	t.Parallel()
	w, r := newEnv(t), newReceiver(t)
	r.setAnswer(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler) // closes the connection
	})
	w.put(r, nil)
	w.deliver()
	w.createEvents("/a/b", 1)
	w.await(func(h run.Webhook) bool { return h.Failures > 0 })
	r.setAnswer(nil)
	r.awaitAccepted(1)
}

// TestDeliver_endless_answer checks that the content and the length of an
// answer do not matter.
func TestDeliver_endless_answer(t *testing.T) {
	t.Parallel()
	w, r := newEnv(t), newReceiver(t)
	ended := make(chan struct{}, 100)
	r.setAnswer(func(w http.ResponseWriter, _ *http.Request) {
		defer func() { ended <- struct{}{} }()
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	})
	w.put(r, nil)
	w.deliver()
	w.createEvents("/a/b", 1)
	w.await(func(h run.Webhook) bool { return h.Delivered == 1 })
	<-ended
}

func TestDeliver_follows_no_redirect(t *testing.T) {
	t.Parallel()
	w, r, other := newEnv(t), newReceiver(t), newReceiver(t)
	r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
	})
	w.put(r, nil)
	w.deliver()
	w.createEvents("/a/b", 1)
	hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
	require.Contains(t, hook.LastError, "307")
	require.Empty(t, other.deliveries())
}

func TestDeliver_backlog_is_tried_at_once_after_a_change(t *testing.T) {
	t.Parallel()
	w, r := newEnv(t), newReceiver(t)
	w.opts.FirstRetry, w.opts.LastRetry = time.Hour, time.Hour
	r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w.put(r, nil)
	w.deliver()
	w.createEvents("/a/b", 1)
	w.await(func(h run.Webhook) bool { return h.Failures == 1 })
	r.setAnswer(nil)
	w.put(r, nil)
	r.awaitAccepted(1)
}

// TestDeliver_killed_at_random kills deliverers repeatedly while the receiver
// fails: no event is skipped, and the order is kept.
func TestDeliver_killed_at_random(t *testing.T) {
	t.Parallel()
	w, r := newEnv(t), newReceiver(t)
	w.opts.Batch = 4
	w.put(r, nil)
	writing := make(chan struct{})
	const all = 200
	go func() {
		defer close(writing)
		w.createEvents("/a/b", all)
	}()
	for round := 0; ; round++ {
		if round%3 == 2 {
			r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		} else {
			r.setAnswer(nil)
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
			w.put(r, nil) // retry at once
			r.setAnswer(nil)
			w.deliver()
			w.await(func(h run.Webhook) bool { return h.Delivered == all })
			break
		}
	}
	<-writing
	next := int64(1)
	for _, n := range r.accepted() {
		require.LessOrEqual(t, n, next, "event %d was skipped", next)
		next = max(next, n+1)
	}
	require.Equal(t, int64(all+1), next)
}
