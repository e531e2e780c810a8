package webhooks_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func TestDeliver_tries_again(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
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
	})
}

func TestDeliver_backs_off(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		w.put(r, nil)
		w.createEvents("/a/b", 1)
		// Each deliverer makes the attempt that is due, and is then killed.
		for n, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			_, stop := w.deliver()
			hook := w.await(func(h run.Webhook) bool { return h.Failures == n+1 })
			stop()
			require.InDelta(t, pause.Seconds(), hook.NextAttemptAt.Sub(hook.LastAttemptAt).Seconds(), pause.Seconds()/5)
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
	})
}

func TestDeliver_respects_retry_after(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header func() string
		pause  time.Duration
		delta  time.Duration
	}{
		"seconds":  {func() string { return "120" }, 2 * time.Minute, 0},
		"a_date":   {func() string { return time.Now().Add(5 * time.Minute).UTC().Format(http.TimeFormat) }, 5 * time.Minute, time.Second},
		"too_long": {func() string { return "999999" }, time.Hour, 0},
		"nonsense": {func() string { return "soon" }, time.Second, time.Second / 5},
		"negative": {func() string { return "-5" }, time.Second, time.Second / 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				r := w.newReceiver()
				r.setAnswer(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", tt.header())
					w.WriteHeader(http.StatusServiceUnavailable)
				})
				w.put(r, nil)
				w.deliver()
				w.createEvents("/a/b", 1)
				hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
				require.InDelta(t, tt.pause, hook.NextAttemptAt.Sub(hook.LastAttemptAt), float64(tt.delta))
			})
		})
	}
}

func TestDeliver_receiver_is_dead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		dead := w.newReceiver()
		dead.Close()
		w.put(dead, nil)
		w.deliver()
		w.createEvents("/a/b", 2)
		hook := w.await(func(h run.Webhook) bool { return h.Failures > 1 })
		require.Contains(t, hook.LastError, "no answer: ")
		require.NotContains(t, hook.LastError, "sesame", "the URL may hold a password")
		w.put(r, nil) // another address: the same events
		r.awaitAccepted(1, 2)
	})
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
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				r := w.newReceiver()
				r.setAnswer(hang)
				w.put(r, nil)
				w.deliver()
				w.createEvents("/a/b", 1)
				hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
				require.Contains(t, hook.LastError, "timeout")
				r.setAnswer(nil)
				r.awaitAccepted(1)
			})
		})
	}
}

func TestDeliver_connection_breaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		r.setAnswer(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler) // closes the connection
		})
		w.put(r, nil)
		w.deliver()
		w.createEvents("/a/b", 1)
		w.await(func(h run.Webhook) bool { return h.Failures > 0 })
		r.setAnswer(nil)
		r.awaitAccepted(1)
	})
}

// TestDeliver_endless_answer checks that the content and the length of an
// answer do not matter.
func TestDeliver_endless_answer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
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
	})
}

func TestDeliver_follows_no_redirect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r, other := w.newReceiver(), w.newReceiver()
		r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
		})
		w.put(r, nil)
		w.deliver()
		w.createEvents("/a/b", 1)
		hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
		require.Contains(t, hook.LastError, "307")
		require.Empty(t, other.deliveries())
	})
}

func TestDeliver_backlog_is_tried_at_once_after_a_change(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		w.put(r, nil)
		w.deliver()
		w.createEvents("/a/b", 1)
		w.await(func(h run.Webhook) bool { return h.Failures == 1 })
		r.setAnswer(nil)
		w.put(r, nil)
		r.awaitAccepted(1)
	})
}

// TestDeliver_killed_at_random kills deliverers repeatedly while the receiver
// fails: no event is skipped, and the order is kept.
func TestDeliver_killed_at_random(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
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
	})
}

// TestDeliver_id checks that a receiver that recognizes batches by their ID
// misses no event: batches with the same ID have the same events.
func TestDeliver_id(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		for _, group := range []string{"/a/b", "/x/y", "/z/z", "/a/b"} {
			w.createEvents(group, 1)
		}
		for _, groups := range [][]string{{"/a/b"}, {"/a/b", "/x/y"}, {"/a/b", "/z/z"}, nil} {
			w.put(r, func(h *run.WebhookSpec) { h.Groups, h.From = groups, "1" })
			before := len(r.deliveries())
			_, stop := w.deliver()
			r.awaitAttempts(before + 1)
			stop()
		}
		ids := map[string][]int64{}
		for _, d := range r.deliveries() {
			if events, ok := ids[d.id]; ok {
				require.Equal(t, events, d.events, d.id)
			}
			ids[d.id] = d.events
		}
		require.Len(t, ids, 4)
	})
}

// TestDeliver_retries_after_a_takeover checks that the next deliverer sends the
// batch that failed, also if it reads the events in other pages.
func TestDeliver_retries_after_a_takeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		w.opts.Batch = 4
		r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		w.createEvents("/x/y", 4)
		w.createEvents("/a/b", 1)
		w.put(r, func(h *run.WebhookSpec) { h.Groups, h.From = []string{"/a/b"}, "1" })
		for range 2 {
			before := w.get().Failures
			_, stop := w.deliver()
			w.await(func(h run.Webhook) bool { return h.Failures > before })
			stop()
			w.createEvents("/a/b", 1)
		}
		for _, d := range r.deliveries() {
			require.Equal(t, []int64{5}, d.events, "a batch is retried unchanged")
		}
	})
}
