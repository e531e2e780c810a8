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
		"keep_their_secrets":       testWebhookSecrets,
		"are_tested":               testWebhookTests,
		"read_failed_tasks":        testFailedTasks,
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

// testWebhookSecrets checks that URLs that are secrets are hidden, and that a
// secret is kept only for the receiver that it was given for.
func testWebhookSecrets(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	const address = "https://hooks.slack.com/services/T0/B0/sesame"
	slack := run.WebhookSpec{Name: "slack", Format: run.WebhookSlack, URL: address, Enabled: true, WebhookSettings: run.WebhookSettings{
		Groups: []string{"/a/*"}, Results: []run.Outcome{run.OutcomeFailed}, Template: &run.MessageTemplate{Text: "x"},
	}}
	secretOf := func(name string) string {
		got, err := s.AcquireWebhook(ctx, name)
		require.NoError(t, err)
		return got.Secret.Reveal()
	}
	refused := func(w run.WebhookSpec) {
		t.Helper()
		_, _, err := s.PutWebhook(ctx, w)
		fixture.RequireCode(t, run.CodeInvalid, err)
	}
	got := put(t, s, slack)
	hidden := run.HiddenURL(address)
	require.Equal(t, hidden, got.URL)
	require.Equal(t, run.WebhookSlack, got.Format)
	require.Equal(t, slack.WebhookSettings, got.WebhookSettings)
	require.Equal(t, []run.EventType{run.EventRun, run.EventApprovalWanted}, got.Events)
	require.Equal(t, address, secretOf("slack"))
	slack.URL, slack.Groups = hidden, nil
	require.Equal(t, hidden, put(t, s, slack).URL)
	require.Equal(t, address, secretOf("slack"), "the hidden URL keeps the URL")
	slack.URL = run.HiddenURL("https://evil.example.com/x")
	refused(slack)
	slack.Name, slack.URL = "other", hidden
	refused(slack)
	slack.Name, slack.Format = "slack", run.WebhookTeams
	refused(slack)

	mail := run.WebhookSpec{Name: "mail", Format: run.WebhookEmail, URL: "smtps://mail.example.com", Enabled: true, WebhookSettings: run.WebhookSettings{
		Email: &run.Email{From: "a@example.com", To: []string{"b@example.com"}, Username: "ci"},
	}}
	refused(mail)
	mail.Secret = "sesame"
	require.Equal(t, mail.Email, put(t, s, mail).Email)
	mail.Secret, mail.Email.To = "", []string{"c@example.com"}
	put(t, s, mail)
	require.Equal(t, "sesame", secretOf("mail"))
	mail.URL = "smtps://evil.example.com"
	refused(mail)
	mail.URL, mail.Email.Username = "smtps://mail.example.com", "other"
	refused(mail)
	mail.Email.Username = ""
	put(t, s, mail)
	require.Empty(t, secretOf("mail"), "without a user there is no password")
	plain := hook("mail")
	plain.Secret = ""
	refused(plain)
}

func testWebhookTests(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	_, err := s.TestWebhook(ctx, "ci")
	fixture.RequireCode(t, run.CodeNotFound, err)
	put(t, s, hook("ci"))
	signal, stop := s.WatchWebhook("ci")
	defer stop()
	w, err := s.AcquireWebhook(ctx, "ci")
	require.NoError(t, err)
	got, err := s.TestWebhook(ctx, "ci")
	require.NoError(t, err)
	require.Equal(t, run.WebhookTest{Requested: 1}, got.Test)
	fixture.AwaitSignal(t, signal)
	require.NoError(t, s.EndWebhookTest(ctx, "ci", w.Epoch, 1, "refused"))
	got, err = s.GetWebhook(ctx, "ci")
	require.NoError(t, err)
	require.Equal(t, int64(1), got.Test.Done)
	require.Equal(t, "refused", got.Test.Error)
	require.False(t, got.Test.At.IsZero())
	require.NoError(t, s.AdvanceWebhook(ctx, "ci", w.Epoch, w.Version, records.DeliveryProgress{}), "a test is no change of the webhook")
	fixture.RequireCode(t, run.CodeConflict, s.EndWebhookTest(ctx, "ci", w.Epoch+1, 1, ""))
	off := hook("ci")
	off.Enabled = false
	put(t, s, off)
	_, err = s.TestWebhook(ctx, "ci")
	fixture.RequireCode(t, run.CodeConflict, err)
}

func testFailedTasks(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := fixture.Wide("/a/b", 3)
	id, _ := fixture.Running(t, s, spec)
	first, second := fixture.Ended(0, 1, 1, run.StatusFailed), run.TaskChange{Task: 2, Status: run.StatusFailed, Reason: "lost"}
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{first, second}})
	got, err := s.FailedTasks(t.Context(), id, 10)
	require.NoError(t, err)
	code := 1
	require.Equal(t, []records.FailedTask{{Name: "all[N=0]", ExitCode: &code}, {Name: "all[N=2]", Reason: "lost"}}, got)
	got, err = s.FailedTasks(t.Context(), id, 1)
	require.NoError(t, err)
	require.Len(t, got, 1)
	got, err = s.FailedTasks(t.Context(), "01k0000000000000000000000a", 1)
	require.NoError(t, err)
	require.Empty(t, got)
}
