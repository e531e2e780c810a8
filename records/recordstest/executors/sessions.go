package executors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// SessionTests returns the tests of sessions in tasks, by name.
func SessionTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"life":              testSessionLife,
		"refused":           testSessionRefused,
		"an_offer_is_once":  testSessionOffer,
		"a_lost_gateway":    testSessionExpires,
		"of_a_run_deleted":  testSessionDeleted,
		"members_of_a_set":  testSessionSet,
		"limit_of_executor": testSessionLimit,
	}
}

func session(id string, of run.ID) records.NewSession {
	return records.NewSession{ID: id, Run: of, Task: "build", Subject: "alice", Command: `"sh"`, Lease: time.Minute, Limit: 2}
}

// execEvents returns the reasons of the events of sessions.
func execEvents(t *testing.T, s records.Store, want int) (reasons []string) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		last, err := s.LastEvent(t.Context())
		require.NoError(t, err)
		if last == 0 {
			return want == 0, "there are no events"
		}
		reasons = nil
		for _, e := range fixture.ReadAll(t, s, run.EventQuery{}) {
			if e.Type == run.EventExec {
				reasons = append(reasons, e.Reason)
			}
		}
		return len(reasons) >= want, fmt.Sprint(reasons)
	})
	return reasons
}

func testSessionLife(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	opened, err := s.OpenSession(t.Context(), session("s1", id))
	require.NoError(t, err)
	require.Equal(t, records.Session{ID: "s1", Key: key, Executor: "x"}, opened)
	waiting, err := s.WaitingSessions(t.Context())
	require.NoError(t, err)
	require.Equal(t, []records.Session{opened}, waiting)
	ok, err := s.OfferSession(t.Context(), "s1", "x", "digest", time.Minute)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, s.JoinSession(t.Context(), "s1", "x", "digest"))
	waiting, err = s.WaitingSessions(t.Context())
	require.NoError(t, err)
	require.Empty(t, waiting)
	for range 2 {
		require.NoError(t, s.EndSession(t.Context(), "s1", "exit code 0"))
	}
	require.Equal(t, []string{`alice runs "sh" in the task (session s1)`, "session s1 of alice ended: exit code 0"}, execEvents(t, s, 2))
	release := session("s2", id)
	release.Command = ""
	_, err = s.OpenSession(t.Context(), release)
	require.NoError(t, err)
	require.NoError(t, s.EndSession(t.Context(), "s2", "exit code 0"))
	require.Equal(t, []string{"alice releases the held task (session s2)", "session s2 of alice ended: exit code 0"}, execEvents(t, s, 4)[2:])
	require.Equal(t, run.StatusRunning, fixture.Get(t, s, id).Tasks[0].Status)
}

func testSessionRefused(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, err := s.OpenSession(t.Context(), session("s1", "01k0000000000000000000000a"))
	fixture.RequireCode(t, run.CodeNotFound, err)
	id, _ := fixture.Running(t, s, fixture.OneTask("/a/b"))
	none := session("s1", id)
	none.Task = "none"
	_, err = s.OpenSession(t.Context(), none)
	fixture.RequireCode(t, run.CodeNotFound, err)
	queued := fixture.CreateHeld(t, s, "")
	of := session("s1", queued)
	of.Task = fixture.Get(t, s, queued).Tasks[0].Name
	_, err = s.OpenSession(t.Context(), of)
	fixture.RequireCode(t, run.CodeConflict, err)
	for policy, code := range map[run.ExecPolicy]run.Code{run.ExecForbidden: run.CodeForbidden, run.ExecAllowed: ""} {
		_, _, err = s.PutPool(t.Context(), run.Pool{Name: "linux", Driver: "docker", Exec: policy})
		require.NoError(t, err)
		pool, err := s.GetPool(t.Context(), "linux")
		require.NoError(t, err)
		require.Equal(t, policy, pool.Exec)
		_, err = s.OpenSession(t.Context(), session("of-"+string(policy), id))
		require.Equal(t, code, run.CodeOf(err), "%v", err)
	}
}

func testSessionOffer(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, fixture.OneTask("/a/b"))
	_, err := s.OpenSession(t.Context(), session("s1", id))
	require.NoError(t, err)
	offer := func(executor, digest string) bool {
		ok, err := s.OfferSession(t.Context(), "s1", executor, digest, 10*time.Second)
		require.NoError(t, err)
		return ok
	}
	require.False(t, offer("y", "theirs"), "another executor")
	require.True(t, offer("x", "first"))
	require.False(t, offer("x", "second"), "as long as the first is valid")
	fixture.RequireCode(t, run.CodeConflict, s.JoinSession(t.Context(), "s1", "x", "second"))
	fixture.RequireCode(t, run.CodeConflict, s.JoinSession(t.Context(), "s1", "x", ""))
	fixture.RequireCode(t, run.CodeConflict, s.JoinSession(t.Context(), "s1", "y", "first"))
	d.Clock.Advance(11 * time.Second)
	fixture.RequireCode(t, run.CodeConflict, s.JoinSession(t.Context(), "s1", "x", "first"))
	require.True(t, offer("x", "third"))
	require.NoError(t, s.JoinSession(t.Context(), "s1", "x", "third"))
	fixture.RequireCode(t, run.CodeConflict, s.JoinSession(t.Context(), "s1", "x", "third"))
	require.False(t, offer("x", "fourth"))
}

func testSessionExpires(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, fixture.OneTask("/a/b"))
	for _, name := range []string{"kept", "lost"} {
		_, err := s.OpenSession(t.Context(), session(name, id))
		require.NoError(t, err)
	}
	d.Clock.Advance(40 * time.Second)
	require.NoError(t, s.KeepSessions(t.Context(), []string{"kept", "unknown"}, time.Minute))
	require.NoError(t, s.KeepSessions(t.Context(), nil, time.Minute))
	d.Clock.Advance(40 * time.Second)
	for _, want := range []int{1, 0} {
		n, err := s.ExpireSessions(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.Equal(t, "session lost of alice ended: its gateway was lost", execEvents(t, s, 3)[2])
	_, err := s.OpenSession(t.Context(), session("third", id))
	require.NoError(t, err, "the lost one does not count")
}

func testSessionDeleted(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, fixture.OneTask("/a/b"))
	_, err := s.OpenSession(t.Context(), session("s1", id))
	require.NoError(t, err)
	require.NoError(t, s.CloseLost(t.Context(), id, "terminated"))
	require.NoError(t, s.DeleteRun(t.Context(), id))
	require.NoError(t, s.EndSession(t.Context(), "s1", "exit code 0"))
	waiting, err := s.WaitingSessions(t.Context())
	require.NoError(t, err)
	require.Empty(t, waiting)
}

func testSessionSet(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for _, name := range []string{"a", "b"} {
		require.NoError(t, fixture.Register(t, s, fixture.Member(name, "set")))
	}
	require.NoError(t, fixture.Register(t, s, fixture.Executor("alone")))
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}, Executor: "a", Set: "set", JournalID: "j"})
	require.NoError(t, err)
	opened, err := s.OpenSession(t.Context(), session("s1", r.ID))
	require.NoError(t, err)
	require.Equal(t, "set", opened.Set)
	ok, err := s.OfferSession(t.Context(), "s1", "alone", "d", time.Minute)
	require.NoError(t, err)
	require.False(t, ok)
	ok, err = s.OfferSession(t.Context(), "s1", "b", "d", time.Minute)
	require.NoError(t, err)
	require.True(t, ok, "another member may have the task by now")
	require.NoError(t, s.JoinSession(t.Context(), "s1", "b", "d"))
}

func testSessionLimit(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, fixture.OneTask("/a/b"))
	for _, name := range []string{"s1", "s2"} {
		_, err := s.OpenSession(t.Context(), session(name, id))
		require.NoError(t, err)
	}
	_, err := s.OpenSession(t.Context(), session("s3", id))
	fixture.RequireCode(t, run.CodeExhausted, err)
	require.NoError(t, s.EndSession(t.Context(), "s1", "exit code 0"))
	_, err = s.OpenSession(t.Context(), session("s3", id))
	require.NoError(t, err)
}
