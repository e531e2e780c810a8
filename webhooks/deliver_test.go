package webhooks_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func TestDeliver_in_order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		w.opts.Batch = 3
		w.createEvents("/a/b", 7)
		w.put(r, func(s *run.WebhookSpec) { s.From = "2" })
		w.deliver()
		r.awaitAccepted(2, 3, 4, 5, 6, 7)
		got := r.deliveries()
		require.Equal(t, []string{"ci.2-4", "ci.5-7"}, []string{got[0].id, got[1].id})
		w.createEvents("/a/b", 1)
		r.awaitAccepted(2, 3, 4, 5, 6, 7, 8)
		hook := w.await(func(h run.Webhook) bool { return h.Delivered == 8 })
		require.Empty(t, hook.LastError)
		require.WithinDuration(t, time.Now(), hook.LastAttemptAt, time.Minute)
	})
}

func TestDeliver_from_now(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		w.createEvents("/a/b", 3)
		w.put(r, nil)
		w.deliver()
		w.createEvents("/a/b", 1)
		r.awaitAccepted(4)
	})
}

func TestDeliver_selected_events_only(t *testing.T) {
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
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				r := w.newReceiver()
				w.create("/a/b/c")
				id := w.create("/a/bc")
				_, err := w.store.Begin(t.Context(), id)
				require.NoError(t, err)
				_, _, err = w.store.Apply(t.Context(), id, records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
				require.NoError(t, err)
				w.create("/a/b")
				w.put(r, func(s *run.WebhookSpec) {
					s.From = "1"
					tt.change(s, id)
				})
				w.deliver()
				r.awaitAccepted(tt.want...)
			})
		})
	}
}

// TestDeliver_saves_position_without_selected_events checks that the position advances
// even if the webhook selects no event.
func TestDeliver_saves_position_without_selected_events(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		w.put(r, func(s *run.WebhookSpec) { s.Group, s.From = "/b", "1" })
		w.deliver()
		for range 1001 {
			w.createEvents("/a/b", 1)
		}
		w.await(func(h run.Webhook) bool { return h.Delivered >= 1000 })
		require.Empty(t, r.deliveries())
		w.createEvents("/b/c", 1)
		r.awaitAccepted(1002)
	})
}

func TestDeliver_changes_take_effect_at_once(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, change := range map[string]struct {
		do     func(w *env, other *receiver)
		reason string
	}{
		"deleted":  {func(w *env, _ *receiver) { require.NoError(w.t, w.store.DeleteWebhook(w.t.Context(), "ci")) }, "the webhook was deleted"},
		"disabled": {func(w *env, r *receiver) { w.put(r, func(s *run.WebhookSpec) { s.Enabled = false }) }, "the webhook is disabled"},
		"moved":    {func(w *env, other *receiver) { w.put(other, nil) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				r, other := w.newReceiver(), w.newReceiver()
				r.setAnswer(hang)
				w.put(r, nil)
				ended, _ := w.deliver()
				w.createEvents("/a/b", 1)
				r.awaitAttempts(1)
				change.do(w, other)
				if change.reason == "" {
					other.awaitAccepted(1)
					return
				}
				require.Equal(t, deliverResult{reason: change.reason}, <-ended)
				require.Empty(t, other.deliveries())
			})
		})
	}
}

func TestDeliver_from_an_earlier_event(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		w.put(r, nil)
		w.deliver()
		w.createEvents("/a/b", 3)
		w.await(func(h run.Webhook) bool { return h.Delivered == 3 })
		w.put(r, func(s *run.WebhookSpec) { s.From = "2" })
		testenv.Await(t, func() (bool, string) {
			got := fmt.Sprint(r.accepted())
			return strings.HasSuffix(got, "2 3]") && len(r.accepted()) == 5, got
		})
	})
}

// TestDeliver_events_are_removed checks that removed events are skipped and
// reported.
func TestDeliver_events_are_removed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		w.put(r, nil)
		w.createEvents("/a/b", 5)
		_, stop := w.deliver()
		w.await(func(h run.Webhook) bool { return h.Failures > 0 })
		stop()
		removed, err := w.store.RemoveEvents(t.Context(), records.KeepEvents{Newest: 2}, 100)
		require.NoError(t, err)
		require.Equal(t, 3, removed)
		// While the receiver does not answer, the message about the removal stays.
		r.setAnswer(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		_, stop = w.deliver()
		hook := w.await(func(h run.Webhook) bool { return h.Delivered == 3 })
		require.Contains(t, hook.LastError, "events 1 to 3 were removed")
		stop()
		w.put(r, nil)
		r.setAnswer(nil)
		w.deliver()
		w.await(func(h run.Webhook) bool { return h.Delivered == 5 })
		got := fmt.Sprint(r.accepted()) // a canceled attempt may have arrived late
		require.True(t, strings.HasSuffix(got, "4 5]"), got)
	})
}

// TestDeliver_is_taken_over checks that of two deliverers only the last one
// continues.
func TestDeliver_is_taken_over(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		w.put(r, nil)
		first, _ := w.deliver()
		w.createEvents("/a/b", 1)
		r.awaitAccepted(1)
		_, err := w.store.AcquireWebhook(t.Context(), "ci")
		require.NoError(t, err)
		w.createEvents("/a/b", 1)
		require.Equal(t, deliverResult{reason: "another deliverer took the webhook over"}, <-first)
	})
}

func TestDeliver_never_existed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended, _ := newEnv(t).deliver()
		require.Equal(t, deliverResult{reason: "the webhook was deleted"}, <-ended)
	})
}
