package recordstest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func roleGrantTests() map[string]func(*testing.T, *fixture.Database) {
	return map[string]func(*testing.T, *fixture.Database){
		"put":      testPutRoleGrants,
		"versions": testRoleGrantVersions,
		"limit":    testRoleGrantLimit,
		"race":     testRoleGrantRace,
	}
}

// webGrants is a list that a test puts.
func webGrants(name string) run.RoleGrants {
	return run.RoleGrants{
		Name: name, Issuer: "https://login.example.com", Note: "the web team", UpdatedBy: "ops",
		Grants: []run.RoleGrant{{Members: "web", Role: "submitter", Groups: []string{"/acme/**"}}, {Subject: "ana", Role: "admin", Groups: []string{"/**"}}},
	}
}

func testPutRoleGrants(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	none, err := s.ListRoleGrants(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
	put, created, err := s.PutRoleGrants(t.Context(), webGrants("web"), nil)
	require.NoError(t, err)
	require.True(t, created)
	require.Positive(t, put.Version)
	require.WithinDuration(t, time.Now(), put.UpdatedAt, time.Minute)
	want := webGrants("web")
	want.Version, want.UpdatedAt = put.Version, put.UpdatedAt
	require.Equal(t, want, put)
	empty, created, err := s.PutRoleGrants(t.Context(), run.RoleGrants{Name: "a", UpdatedBy: "ops", Grants: []run.RoleGrant{}}, nil)
	require.NoError(t, err)
	require.True(t, created)
	all, err := s.ListRoleGrants(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "a", all[0].Name)
	require.Empty(t, all[0].Grants)
	require.Equal(t, empty.Version, all[0].Version)
	require.Equal(t, want, all[1])

	again := webGrants("web")
	again.UpdatedBy = "bob"
	got, created, err := s.PutRoleGrants(t.Context(), again, nil)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, want, got, "nothing changed")
	for name, change := range map[string]func(*run.RoleGrants){
		"note": func(g *run.RoleGrants) { g.Note = "" }, "issuer": func(g *run.RoleGrants) { g.Issuer = "https://example.org" }, "grants": func(g *run.RoleGrants) { g.Grants = g.Grants[:1] },
	} {
		before := got
		change(&again)
		got, created, err = s.PutRoleGrants(t.Context(), again, nil)
		require.NoError(t, err, name)
		require.False(t, created, name)
		require.Greater(t, got.Version, before.Version, name)
		require.Equal(t, "bob", got.UpdatedBy, name)
	}
	all, err = s.ListRoleGrants(t.Context())
	require.NoError(t, err)
	require.Equal(t, got, all[1])

	require.NoError(t, s.DeleteRoleGrants(t.Context(), "web", nil))
	fixture.RequireCode(t, run.CodeNotFound, s.DeleteRoleGrants(t.Context(), "web", nil))
	all, err = s.ListRoleGrants(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func testRoleGrantVersions(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	put := func(note string, expected *int64) (run.RoleGrants, error) {
		g := webGrants("web")
		g.Note = note
		g, _, err := s.PutRoleGrants(t.Context(), g, expected)
		return g, err
	}
	_, err := put("1", new(int64(7)))
	fixture.RequireCode(t, run.CodeConflict, err)
	fixture.RequireCode(t, run.CodeConflict, s.DeleteRoleGrants(t.Context(), "web", new(int64(7))))
	first, err := put("1", new(int64(0)))
	require.NoError(t, err)
	_, err = put("1", new(int64(0)))
	fixture.RequireCode(t, run.CodeConflict, err)
	require.ErrorContains(t, err, "exist already")
	second, err := put("2", &first.Version)
	require.NoError(t, err)
	_, err = put("3", &first.Version)
	fixture.RequireCode(t, run.CodeConflict, err)
	require.ErrorContains(t, err, "ops changed the role grants web")
	fixture.RequireCode(t, run.CodeConflict, s.DeleteRoleGrants(t.Context(), "web", &first.Version))
	require.NoError(t, s.DeleteRoleGrants(t.Context(), "web", &second.Version))

	third, err := put("1", nil)
	require.NoError(t, err)
	require.Greater(t, third.Version, second.Version, "a list that is created again never has an earlier version")
}

func testRoleGrantLimit(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for i := range run.MaxRoleGrantLists {
		_, _, err := s.PutRoleGrants(t.Context(), run.RoleGrants{Name: fmt.Sprintf("n%d", i), UpdatedBy: "ops"}, nil)
		require.NoError(t, err)
	}
	_, _, err := s.PutRoleGrants(t.Context(), webGrants("web"), nil)
	fixture.RequireCode(t, run.CodeExhausted, err)
	_, created, err := s.PutRoleGrants(t.Context(), webGrants("n7"), nil)
	require.NoError(t, err)
	require.False(t, created)
	require.NoError(t, s.DeleteRoleGrants(t.Context(), "n7", nil))
	_, created, err = s.PutRoleGrants(t.Context(), webGrants("web"), nil)
	require.NoError(t, err)
	require.True(t, created)
}

// testRoleGrantRace: of several changes that expect the same version, one is made.
func testRoleGrantRace(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	const clients = 8
	version := int64(0)
	for round := range 3 {
		errs := make([]error, clients)
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				g := webGrants("web")
				g.Note = fmt.Sprintf("round %d, client %d", round, i)
				_, _, errs[i] = s.PutRoleGrants(t.Context(), g, &version)
			})
		}
		all.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
				continue
			}
			fixture.RequireCode(t, run.CodeConflict, err)
		}
		require.Equal(t, 1, made)
		stored, err := s.ListRoleGrants(t.Context())
		require.NoError(t, err)
		require.Len(t, stored, 1)
		version = stored[0].Version
	}
}
