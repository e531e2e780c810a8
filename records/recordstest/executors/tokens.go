package executors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// TokenTests returns the tests of the records of bearer tokens, by name.
func TokenTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){"uses": testTokenUses, "revocation": testTokenRevocation, "browsers": testBrowserSessions, "browsers of users": testBrowserIdentities, "creation": testTokenCreation}
}

func testTokenUses(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	at := time.Unix(1_800_000_000, 0)
	require.NoError(t, s.RecordTokenUses(t.Context(), nil))
	require.NoError(t, s.RecordTokenUses(t.Context(), []run.TokenRecord{{Hash: "a", Name: "ci", LastUsed: at}, {Hash: "b", Name: "ops", LastUsed: at}}))
	require.NoError(t, s.RecordTokenUses(t.Context(), []run.TokenRecord{{Hash: "a", Name: "ci", LastUsed: at.Add(-time.Hour)}, {Hash: "b", Name: "ops", LastUsed: at.Add(time.Hour)}}))
	all, err := s.TokenRecords(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.WithinDuration(t, at, all[0].LastUsed, 0, "an earlier use changes nothing")
	require.WithinDuration(t, at.Add(time.Hour), all[1].LastUsed, 0)
	require.Zero(t, all[0].RevokedAt)
}

func testTokenCreation(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	expires := time.Unix(1_900_000_000, 0)
	made := run.TokenRecord{
		Hash: "a", Name: "ci", Expires: expires, CreatedBy: "ops",
		Entry: &run.TokenEntry{Bindings: []run.RoleBinding{{Role: "viewer", Groups: []string{"/acme/**"}}}},
	}
	require.NoError(t, s.CreateToken(t.Context(), made))
	require.NoError(t, s.RecordTokenUses(t.Context(), []run.TokenRecord{{Hash: "b", Name: "of a file", LastUsed: expires}}))
	known, err := s.TokenRecords(t.Context(), true)
	require.NoError(t, err)
	require.Len(t, known, 1)
	require.Equal(t, made.Entry, known[0].Entry)
	require.Equal(t, "ops", known[0].CreatedBy)
	require.WithinDuration(t, expires, known[0].Expires, 0)
	fixture.RequireCode(t, run.CodeConflict, s.CreateToken(t.Context(), run.TokenRecord{Hash: "c", Name: "ci", Entry: new(run.TokenEntry)}))
	require.NoError(t, s.CreateToken(t.Context(), run.TokenRecord{Hash: "d", Name: "of a file", Entry: new(run.TokenEntry)}))

	require.NoError(t, s.RecordTokenUses(t.Context(), []run.TokenRecord{{Hash: "a", Name: "ci", LastUsed: expires}}))
	require.NoError(t, s.RecordTokenRevocation(t.Context(), run.TokenRecord{Hash: "a", Name: "ci", RevokedBy: "ops"}))
	fixture.RequireCode(t, run.CodeConflict, s.CreateToken(t.Context(), run.TokenRecord{Hash: "c", Name: "ci", Entry: new(run.TokenEntry)}))
	known, err = s.TokenRecords(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, made.Entry, known[0].Entry)
	require.NotZero(t, known[0].RevokedAt)
}

func testTokenRevocation(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	at := time.Unix(1_800_000_000, 0)
	require.NoError(t, s.RecordTokenUses(t.Context(), []run.TokenRecord{{Hash: "a", Name: "ci", LastUsed: at}}))
	require.NoError(t, s.RecordTokenRevocation(t.Context(), run.TokenRecord{Hash: "a", Name: "ci", RevokedBy: "ops"}))
	require.NoError(t, s.RecordTokenRevocation(t.Context(), run.TokenRecord{Hash: "b", Name: "never used", RevokedBy: "ops"}))
	first, err := s.TokenRecords(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, first, 2)
	for i, x := range first {
		require.NotZero(t, x.RevokedAt)
		require.Equal(t, "ops", x.RevokedBy)
		require.Equal(t, i == 0, !x.LastUsed.IsZero())
	}
	require.NoError(t, s.RecordTokenRevocation(t.Context(), run.TokenRecord{Hash: "a", Name: "ci", RevokedBy: "other"}))
	require.NoError(t, s.RecordTokenUses(t.Context(), []run.TokenRecord{{Hash: "a", Name: "ci", LastUsed: at.Add(time.Hour)}}))
	again, err := s.TokenRecords(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, first[0].RevokedAt, again[0].RevokedAt, "the first revocation stays, also after a use at another gateway")
	require.Equal(t, "ops", again[0].RevokedBy)
	require.NoError(t, s.RecordTokenUses(t.Context(), []run.TokenRecord{{Hash: "c", Name: "other", LastUsed: at}}))
	revoked, err := s.TokenRecords(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, again, revoked)
}

// testBrowserIdentities tests the sessions of the users of a provider.
func testBrowserIdentities(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	at := time.Now()
	id := run.Identity{Issuer: "https://login.example.com", Subject: "1", Name: "ana", Groups: []string{"developers"}}
	require.NoError(t, s.CreateBrowserSession(t.Context(), run.BrowserSession{
		Hash: "a", Token: "oidc:1", Name: "ana", Expires: at.Add(time.Hour), Identity: id, Sealed: "first", Confirmed: at,
	}))
	read, err := s.ReadBrowserSession(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, id, read.Identity)
	require.Equal(t, "first", read.Sealed)
	require.WithinDuration(t, at, read.Confirmed, 0)
	require.Zero(t, read.ConfirmAfter)

	next := at.Add(time.Minute)
	for i, want := range []bool{true, false} {
		claimed, err := s.ClaimBrowserConfirmation(t.Context(), "a", read.ConfirmAfter, next)
		require.NoError(t, err)
		require.Equal(t, want, claimed, "%d: one gateway asks the provider", i)
	}
	claimed, err := s.ClaimBrowserConfirmation(t.Context(), "x", time.Time{}, next)
	require.NoError(t, err)
	require.False(t, claimed)

	read.Identity.Groups, read.Sealed, read.Confirmed, read.ConfirmAfter = nil, "second", next, next
	require.NoError(t, s.ConfirmBrowserSession(t.Context(), read))
	again, err := s.ReadBrowserSession(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, again.Identity.Groups)
	require.Equal(t, "second", again.Sealed)
	require.WithinDuration(t, next, again.Confirmed, 0)
	claimed, err = s.ClaimBrowserConfirmation(t.Context(), "a", again.ConfirmAfter, next.Add(time.Minute))
	require.NoError(t, err)
	require.True(t, claimed)

	require.NoError(t, s.EndBrowserSession(t.Context(), "a"))
	require.NoError(t, s.ConfirmBrowserSession(t.Context(), read), "it stays gone")
	_, err = s.ReadBrowserSession(t.Context(), "a")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
}

func testBrowserSessions(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	expires := time.Now().Add(time.Hour)
	for _, b := range []run.BrowserSession{
		{Hash: "a", Token: "t", Name: "ana", Browser: "Firefox", Expires: expires},
		{Hash: "b", Token: "t", Name: "ana", Expires: expires},
		{Hash: "c", Token: "u", Name: "ben", Expires: expires},
		{Hash: "d", Token: "u", Name: "ben", Expires: time.Now().Add(-time.Second)},
	} {
		require.NoError(t, s.CreateBrowserSession(t.Context(), b))
	}
	require.Error(t, s.CreateBrowserSession(t.Context(), run.BrowserSession{Hash: "a", Token: "u", Name: "eve", Expires: expires}), "a secret begins one session")
	first, err := s.ReadBrowserSession(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "t", first.Token)
	require.Equal(t, "Firefox", first.Browser)
	require.WithinDuration(t, expires, first.Expires, 0)
	require.WithinDuration(t, time.Now(), first.Created, time.Minute)
	_, err = s.ReadBrowserSession(t.Context(), "x")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))

	later := first.LastUsed.Add(10 * time.Minute)
	require.NoError(t, s.RecordBrowserUses(t.Context(), nil))
	require.NoError(t, s.RecordBrowserUses(t.Context(), map[string]time.Time{"a": later, "b": first.LastUsed.Add(-time.Hour), "x": later}))
	for hash, want := range map[string]time.Time{"a": later, "b": first.LastUsed} {
		got, err := s.ReadBrowserSession(t.Context(), hash)
		require.NoError(t, err)
		require.WithinDuration(t, want, got.LastUsed, time.Minute, hash)
	}

	n, err := s.ForgetBrowserSessions(t.Context(), first.LastUsed.Add(-time.Minute), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n, "d has expired")
	n, err = s.ForgetBrowserSessions(t.Context(), first.LastUsed.Add(5*time.Minute), 1)
	require.NoError(t, err)
	require.Equal(t, 1, n, "at most so many at a time")
	n, err = s.ForgetBrowserSessions(t.Context(), first.LastUsed.Add(5*time.Minute), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n, "a was used since")

	require.NoError(t, s.EndBrowserSession(t.Context(), "x"))
	require.NoError(t, s.EndBrowserSessions(t.Context(), "u"))
	_, err = s.ReadBrowserSession(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, s.EndBrowserSession(t.Context(), "a"))
	_, err = s.ReadBrowserSession(t.Context(), "a")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
}
