package changegroups

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func keyed(t testing.TB, key, digest string) records.NewRun {
	n := fixture.NewRun(t, fixture.OneTask("/a/b"))
	n.IdempotencyKey = records.IdempotencyKey{Subject: "me", Key: key, Digest: digest}
	return n
}

func testIdempotency(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	first, err := s.CreateRun(ctx, keyed(t, "k", "d"))
	require.NoError(t, err)
	require.False(t, first.Replayed)
	again, err := s.CreateRun(ctx, keyed(t, "k", "d"))
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	require.True(t, again.Replayed)
	_, err = s.CreateRun(ctx, keyed(t, "k", "other"))
	fixture.RequireCode(t, run.CodeIdempotencyMismatch, err)
	other := keyed(t, "k", "other")
	other.IdempotencyKey.Subject = "you"
	_, err = s.CreateRun(ctx, other)
	require.NoError(t, err, "each subject has its own keys")

	stale := keyed(t, "k2", "d")
	stale.Token = run.Token{"g": 7}
	_, err = s.CreateRun(ctx, stale)
	fixture.RequireCode(t, run.CodeChangeGroupConflict, err)
	stale.Token = run.Token{"g": 0}
	created, err := s.CreateRun(ctx, stale)
	require.NoError(t, err, "a refused request does not use the key")
	again, err = s.CreateRun(ctx, stale)
	require.NoError(t, err, "the token is stale, but the key is checked first")
	require.Equal(t, created.ID, again.ID)
}

func testIdempotencyExpires(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	first, err := s.CreateRun(ctx, keyed(t, "k", "d"))
	require.NoError(t, err)
	for i := range 15 {
		_, err := s.CreateRun(ctx, keyed(t, "k"+fixture.Itoa(int64(i)), "d"))
		require.NoError(t, err)
	}
	d.Clock.Advance(run.IdempotencyTime - time.Minute)
	again, err := s.CreateRun(ctx, keyed(t, "k", "d"))
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	d.Clock.Advance(2 * time.Minute)
	late, err := s.CreateRun(ctx, keyed(t, "k", "other"))
	require.NoError(t, err)
	require.NotEqual(t, first.ID, late.ID)
	require.False(t, late.Replayed)
	again, err = s.CreateRun(ctx, keyed(t, "k", "other"))
	require.NoError(t, err)
	require.Equal(t, late.ID, again.ID, "the expired key is stored again")
}

func testIdempotencyDeleted(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	r, err := s.CreateRun(ctx, keyed(t, "k", "d"))
	require.NoError(t, err)
	require.NoError(t, s.CancelRun(ctx, r.ID, nil))
	require.NoError(t, s.DeleteRun(ctx, r.ID))
	_, err = s.CreateRun(ctx, keyed(t, "k", "d"))
	fixture.RequireCode(t, run.CodeConflict, err)
	require.ErrorContains(t, err, "was deleted")
}

func testIdempotencyRace(t *testing.T, d *fixture.Database) {
	a, b := d.Store(t), d.Store(t)
	ids := make([]run.ID, 20)
	fixture.Race(t, len(ids), func(i int) error {
		r, err := []records.Store{a, b}[i%2].CreateRun(t.Context(), keyed(t, "k", "d"))
		ids[i] = r.ID
		return err
	}, "")
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(ids))), 1, "all calls return one run")
	page, err := a.ListRuns(t.Context(), run.ListQuery{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
}
