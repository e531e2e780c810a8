package recordstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func webhookTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"are_put_and_read":         testWebhookPut,
		"begin_at_the_given_event": testWebhookFrom,
		"notify_their_workflow":    testWebhookOutbox,
		"are_limited":              testWebhookLimit,
		"one_worker_delivers":      testWebhookTake,
		"watch_sees_changes":       testWebhookWatch,
	}
}

const webhookSecret = "0123456789abcdef"

func hook(name string) run.WebhookSpec {
	return run.WebhookSpec{Name: name, URL: "https://example.com/hook", Secret: webhookSecret, Enabled: true}
}

func put(t testing.TB, s records.Store, w run.WebhookSpec) run.Webhook {
	t.Helper()
	got, _, err := s.PutWebhook(t.Context(), w)
	require.NoError(t, err)
	return got
}

func testWebhookPut(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	_, err := s.GetWebhook(ctx, "ci")
	fixture.RequireCode(t, run.CodeNotFound, err)
	fixture.RequireCode(t, run.CodeNotFound, s.DeleteWebhook(ctx, "ci"))

	bare := hook("ci")
	bare.Secret = ""
	_, _, err = s.PutWebhook(ctx, bare)
	fixture.RequireCode(t, run.CodeInvalid, err)

	got, created, err := s.PutWebhook(ctx, hook("ci"))
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, run.EventTypes(), got.Events)
	require.True(t, got.Enabled)
	require.False(t, got.CreatedAt.IsZero())

	changed := run.WebhookSpec{
		Name: "ci", URL: "http://other", Events: []run.EventType{run.EventRun}, Group: "/a", Run: "01k0000000000000000000000a",
	}
	got, created, err = s.PutWebhook(ctx, changed)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, changed.URL, got.URL)
	require.Equal(t, changed.Events, got.Events)
	require.Equal(t, changed.Group, got.Group)
	require.Equal(t, changed.Run, got.Run)
	require.False(t, got.Enabled)
	read, err := s.GetWebhook(ctx, "ci")
	require.NoError(t, err)
	require.Equal(t, got, read)
	taken, err := s.AcquireWebhook(ctx, "ci")
	require.NoError(t, err)
	require.Equal(t, run.Secret(webhookSecret), taken.Secret, "the secret is kept if none is given")

	put(t, s, hook("a"))
	all, err := s.ListWebhooks(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "ci"}, []string{all[0].Name, all[1].Name})
	require.NoError(t, s.DeleteWebhook(ctx, "ci"))
	_, err = s.GetWebhook(ctx, "ci")
	fixture.RequireCode(t, run.CodeNotFound, err)
}

func testWebhookFrom(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for range 5 {
		fixture.Create(t, s, fixture.OneTask("/a/b"))
	}
	fixture.AwaitEvent(t, s, 5)
	w := hook("now")
	require.Equal(t, int64(5), put(t, s, w).Delivered)
	w = hook("third")
	w.From = "3"
	require.Equal(t, int64(2), put(t, s, w).Delivered)
	w.From = "0"
	require.Equal(t, int64(0), put(t, s, w).Delivered)
	w.From = ""
	require.Equal(t, int64(0), put(t, s, w).Delivered)
	w.From = run.FromNow
	require.Equal(t, int64(5), put(t, s, w).Delivered)
}

func testWebhookOutbox(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	put(t, s, hook("ci"))
	fixture.Create(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.DeleteWebhook(ctx, "ci"))
	rows := fixture.TakeAll(t, s)
	require.Len(t, rows, 2, "one row of each key")
	require.Equal(t, records.OutboxWebhook, rows[0].Kind)
	require.Equal(t, "ci", rows[0].Webhook)
	require.Empty(t, rows[0].Run)
	require.Empty(t, rows[1].Webhook)
	require.NoError(t, s.CompleteOutbox(ctx, rows[0].ID))
	next := fixture.TakeAll(t, s)
	require.Len(t, next, 1)
	require.Equal(t, "ci", next[0].Webhook)
}

func testWebhookLimit(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	var group errgroup.Group
	group.SetLimit(4)
	for i := range run.MaxWebhooks {
		group.Go(func() error {
			_, _, err := stores[i%2].PutWebhook(t.Context(), hook(fmt.Sprintf("w%d", i)))
			return err
		})
	}
	require.NoError(t, group.Wait())
	_, _, err := stores[0].PutWebhook(t.Context(), hook("more"))
	fixture.RequireCode(t, run.CodeExhausted, err)
	_, created, err := stores[1].PutWebhook(t.Context(), hook("w7"))
	require.NoError(t, err)
	require.False(t, created)
	require.NoError(t, stores[0].DeleteWebhook(t.Context(), "w7"))
	_, created, err = stores[1].PutWebhook(t.Context(), hook("more"))
	require.NoError(t, err)
	require.True(t, created)
}

func testWebhookTake(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	_, err := s.AcquireWebhook(ctx, "ci")
	fixture.RequireCode(t, run.CodeNotFound, err)
	put(t, s, hook("ci"))
	first, err := s.AcquireWebhook(ctx, "ci")
	require.NoError(t, err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	failed := records.DeliveryProgress{
		Delivered: 3, BatchEnd: 9, LastError: "503", LastAttempt: at, NextAttempt: at.Add(time.Second), Failures: 2,
	}
	require.NoError(t, s.AdvanceWebhook(ctx, "ci", first.Epoch, first.Version, failed))
	read, err := s.ReadWebhook(ctx, "ci", first.Epoch)
	require.NoError(t, err)
	stored := records.DeliveryProgress{
		Delivered: read.Delivered, BatchEnd: read.BatchEnd, LastError: read.LastError, LastAttempt: read.LastAttemptAt,
		NextAttempt: read.NextAttemptAt, Failures: read.Failures,
	}
	require.Equal(t, failed, stored)
	require.NoError(t, s.AdvanceWebhook(ctx, "ci", first.Epoch, first.Version, records.DeliveryProgress{Delivered: 9}))
	got, err := s.GetWebhook(ctx, "ci")
	require.NoError(t, err)
	require.Equal(t, at, got.LastAttemptAt, "a zero time keeps the stored one")
	require.Empty(t, got.LastError)

	second, err := s.AcquireWebhook(ctx, "ci")
	require.NoError(t, err)
	require.Greater(t, second.Epoch, first.Epoch)
	_, err = s.ReadWebhook(ctx, "ci", first.Epoch)
	fixture.RequireCode(t, run.CodeConflict, err)
	fixture.RequireCode(t, run.CodeConflict, s.AdvanceWebhook(ctx, "ci", first.Epoch, first.Version, records.DeliveryProgress{Delivered: 10}))

	put(t, s, hook("ci"))
	fixture.RequireCode(t, run.CodeConflict, s.AdvanceWebhook(ctx, "ci", second.Epoch, second.Version, records.DeliveryProgress{Delivered: 10}))
	read, err = s.ReadWebhook(ctx, "ci", second.Epoch)
	require.NoError(t, err)
	require.Greater(t, read.Version, second.Version)
	require.Equal(t, int64(9), read.Delivered)
	require.NoError(t, s.DeleteWebhook(ctx, "ci"))
	fixture.RequireCode(t, run.CodeNotFound, s.AdvanceWebhook(ctx, "ci", second.Epoch, read.Version, records.DeliveryProgress{Delivered: 10}))
	_, err = s.ReadWebhook(ctx, "ci", second.Epoch)
	fixture.RequireCode(t, run.CodeNotFound, err)
}

// testWebhookWatch changes a webhook in another store, as another process does.
func testWebhookWatch(t *testing.T, d *fixture.Database) {
	s, other := d.Store(t), d.Store(t)
	put(t, s, hook("ci"))
	signal, stop := s.WatchWebhook("ci")
	defer stop()
	for _, change := range []func(){
		func() { put(t, other, hook("ci")) },
		func() { put(t, s, hook("ci")) },
		func() { require.NoError(t, other.DeleteWebhook(t.Context(), "ci")) },
	} {
		for tryReceive(signal) {
		}
		change()
		fixture.AwaitSignal(t, signal)
	}
}
