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
	return map[string]func(t *testing.T, d *fixture.Database){"uses": testTokenUses, "revocation": testTokenRevocation}
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
