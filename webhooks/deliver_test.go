package webhooks_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

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

// TestDeliver_place_of_what_is_not_selected checks that the position advances
// even if the webhook selects no event.
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

// TestDeliver_events_are_removed checks that removed events are skipped and
// reported.
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
	// While the receiver does not answer, the message about the removal stays.
	r.does(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	_, stop = w.deliver()
	hook := w.await(func(h run.Webhook) bool { return h.Delivered == 3 })
	require.Contains(t, hook.LastError, "events 1 to 3 were removed")
	stop()
	w.put(r, nil)
	r.does(nil)
	w.deliver()
	w.await(func(h run.Webhook) bool { return h.Delivered == 5 })
	got := fmt.Sprint(r.taken()) // a canceled attempt may have arrived late
	require.True(t, strings.HasSuffix(got, "4 5]"), got)
}

// TestDeliver_is_taken_over checks that of two deliverers only the last one
// continues.
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
	require.Equal(t, ending{why: "another deliverer took the webhook over"}, <-first)
}

func TestDeliver_never_existed(t *testing.T) {
	t.Parallel()
	ended, _ := newWorld(t).deliver()
	require.Equal(t, ending{why: "the webhook was deleted"}, <-ended)
}
