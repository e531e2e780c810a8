package recordstest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// NewRing creates a ring of random keys with the ids.
func NewRing(t testing.TB, ids ...string) *keyring.Ring {
	t.Helper()
	r, err := keyring.Parse(keyLines(t, ids...))
	require.NoError(t, err)
	return r
}

func keyLines(t testing.TB, ids ...string) (text string) {
	t.Helper()
	for _, id := range ids {
		line, err := keyring.NewKey(id)
		require.NoError(t, err)
		text += line + "\n"
	}
	return text
}

// RunSealed checks how a kind of store seals secrets. open opens a store on the
// same database each time.
func RunSealed(t *testing.T, open func(keys *keyring.Ring) records.Store) {
	t.Helper()
	using := func(keys *keyring.Ring, fn func(s records.Store)) {
		t.Helper()
		s := open(keys)
		defer func() { require.NoError(t, s.Close()) }()
		fn(s)
	}
	hidden := run.Secret(rand.Text())
	var created run.Run
	old := keyLines(t, "k1")
	first, err := keyring.Parse(old)
	require.NoError(t, err)
	next := keyLines(t, "k2")
	both, err := keyring.Parse(next + old)
	require.NoError(t, err)
	other := NewRing(t, "k1") // with the same id

	using(nil, func(s records.Store) { // stored before there were keys
		created = createSecrets(t, s, hidden)
		_, err := s.Reencrypt(t.Context(), 10)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	})
	using(first, func(s records.Store) {
		requireSecrets(t, s, created.ID, hidden)
		for _, want := range []int{2, 1, 0} {
			n, err := s.Reencrypt(t.Context(), 2)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		requireSecrets(t, s, created.ID, hidden)
		w := hook("hook")
		w.Secret = ""
		_, _, err := s.PutWebhook(t.Context(), w)
		require.NoError(t, err, "the sealed secret is kept")
		requireSecrets(t, s, created.ID, hidden)
	})
	for name, keys := range map[string]*keyring.Ring{"no key": nil, "another key": other} {
		using(keys, func(s records.Store) {
			_, err := s.RestartSource(t.Context(), created.ID)
			require.Equal(t, run.CodeInternal, run.CodeOf(err), name)
			require.ErrorContains(t, err, "the secrets of run/"+string(created.ID)+" cannot be read")
			_, err = s.AcquireWebhook(t.Context(), "hook")
			require.Equal(t, run.CodeInternal, run.CodeOf(err), name)
			_, err = s.GetSchedule(t.Context(), "nightly")
			require.Equal(t, run.CodeInternal, run.CodeOf(err), name)
			_, err = s.ListWebhooks(t.Context())
			require.NoError(t, err, "calls that need no secret succeed")
			_, err = s.GetRun(t.Context(), created.ID)
			require.NoError(t, err)
		})
	}
	var later run.Run
	using(both, func(s records.Store) {
		requireSecrets(t, s, created.ID, hidden)
		later = fixture.Create(t, s, specWithSecret(hidden))
		n, err := s.Reencrypt(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 3, n, "secrets sealed with the first key")
		n, err = s.Reencrypt(t.Context(), 10)
		require.NoError(t, err)
		require.Zero(t, n)
		requireSecrets(t, s, created.ID, hidden)
		requireSecrets(t, s, later.ID, hidden)
	})

	// The revisions of a fleet are sealed as its configuration is.
	using(first, func(s records.Store) {
		_, _, err := s.PutPool(t.Context(), run.Pool{Name: "linux", Driver: run.DriverShell})
		require.NoError(t, err)
		for _, image := range []string{"a", "b"} {
			config := fmt.Sprintf(`{"image":%q,"token":%q}`, image, hidden.Reveal())
			_, _, err := s.PutFleet(t.Context(), "linux", run.FleetSpec{Pool: "linux", Plugin: "docker", PluginConfig: json.RawMessage(config)}, "me")
			require.NoError(t, err)
		}
	})
	using(nil, func(s records.Store) {
		_, err := s.FleetRevisions(t.Context(), "linux")
		require.Equal(t, run.CodeInternal, run.CodeOf(err))
	})
	using(both, func(s records.Store) {
		n, err := s.Reencrypt(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 3, n, "a fleet and its two revisions")
	})
	latest, err := keyring.Parse(next)
	require.NoError(t, err)
	using(latest, func(s records.Store) {
		all, err := s.FleetRevisions(t.Context(), "linux")
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.Contains(t, string(all[1].Settings.PluginConfig), hidden.Reveal())
	})
}

func specWithSecret(hidden run.Secret) *run.Spec {
	spec := fixture.OneTask("/a/b")
	spec.Secrets = map[string]run.Secret{"TOKEN": hidden}
	return spec
}

// createSecrets stores a secret of each kind.
func createSecrets(t *testing.T, s records.Store, hidden run.Secret) run.Run {
	t.Helper()
	_, _, err := s.PutWebhook(t.Context(), hook("hook"))
	require.NoError(t, err)
	require.NoError(t, s.PutSchedule(t.Context(), nightly("nightly"), "ann", 0))
	return fixture.Create(t, s, specWithSecret(hidden))
}

// requireSecrets checks the secrets that createSecrets stored.
func requireSecrets(t *testing.T, s records.Store, id run.ID, hidden run.Secret) {
	t.Helper()
	source, err := s.RestartSource(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, map[string]run.Secret{"TOKEN": hidden}, source.Spec.Secrets)
	d, err := s.AcquireWebhook(t.Context(), "hook")
	require.NoError(t, err)
	require.Equal(t, run.Secret(webhookSecret), d.Secret)
	d, err = s.ReadWebhook(t.Context(), "hook", d.Epoch)
	require.NoError(t, err)
	require.Equal(t, run.Secret(webhookSecret), d.Secret)
	x, err := s.GetSchedule(t.Context(), "nightly")
	require.NoError(t, err)
	require.Equal(t, nightly("nightly").Spec.Secrets, x.Spec.Secrets)
}
