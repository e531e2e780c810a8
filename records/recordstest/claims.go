package recordstest

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func claimTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"returns_the_definition":       testClaimDefinition,
		"returns_no_foreign_secrets":   testClaimUntrusted,
		"returns_the_volumes_scope":    testClaimVolumes,
		"may_be_repeated":              testClaimRepeated,
		"has_one_winner":               testClaimRace,
		"once_an_attempt":              testClaimOnceAnAttempt,
		"a_newer_key_is_accepted":      testClaimNewer,
		"is_refused":                   testClaimRefused,
		"is_refused_to_old_versions":   testClaimTooOld,
		"a_requested_stop_keeps_claim": testClaimStopRequested,
		"only_allowed_keys":            testClaimAllowed,
		"states":                       testClaimStates,
		"unclaimable":                  testClaimUnclaimable,
		"of_a_set":                     testClaimSet,
	}
}

func testClaimDefinition(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := rich()
	r := fixture.Create(t, s, spec)
	fixture.Begin(t, s, r.ID)
	key := run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 1}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 1)}})
	n := fixture.NewRun(t, spec)
	require.Equal(t, run.Define(spec, spec.Tasks["build"], n.Tasks[1], key, r.Counter), fixture.Claim(t, s, key))
	task := fixture.Get(t, s, r.ID).Tasks[1]
	require.Equal(t, run.StatusRunning, task.Status)
	require.Equal(t, "x", task.Executor)
}

// testClaimUntrusted claims a task of a run that an older version accepted: an
// untrusted one with secrets of a provider.
func testClaimUntrusted(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, &run.Spec{
		Name: "untrusted", Group: "/a/b", Untrusted: true, SecretsFrom: map[string]run.SecretRef{"S": {Provider: "p", Name: "n"}},
		Tasks: map[string]*run.TaskSpec{"a": {Pool: "linux", Steps: []run.Step{{Run: "true"}}}},
	})
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	require.Contains(t, fixture.Claim(t, s, run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}).Fault, "untrusted")
}

// testClaimVolumes claims tasks with a persistent volume, which trusted and untrusted runs
// must not share.
func testClaimVolumes(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for untrusted, want := range map[bool]string{
		false: run.PersistentVolumeScope("linux", "/a/b"), true: run.UntrustedVolumeScope("linux", "/a/b/c"),
	} {
		r := fixture.Create(t, s, &run.Spec{Name: "volumes", Group: "/a/b/c", Untrusted: untrusted, Tasks: map[string]*run.TaskSpec{"a": {
			Pool: "linux", Image: "alpine", Volumes: []run.Volume{{Path: "/cache", Name: "cache"}}, Steps: []run.Step{{Run: "true"}},
		}}})
		fixture.Begin(t, s, r.ID)
		fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
		key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
		require.Equal(t, want, fixture.Claim(t, s, key).VolumeScope)
		require.Equal(t, want, fixture.Claim(t, s, key).VolumeScope, "also of the claim that an executor repeats to resume the task")
	}
}

func testClaimRepeated(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	before := fixture.Get(t, s, id)
	fixture.AwaitEvent(t, s, 4)
	first := fixture.Claim(t, s, key)
	require.Equal(t, first, fixture.Claim(t, s, key))
	require.Equal(t, before, fixture.Get(t, s, id))
	fixture.AwaitEvent(t, s, 4)
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "other"})
	fixture.RequireCode(t, run.CodeClaimed, err)
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "y", JournalID: "jx"})
	fixture.RequireCode(t, run.CodeClaimed, err)
}

// testClaimOnceAnAttempt checks that at most one dispatch of an attempt is
// claimed, also if a workflow that was reset has delivered another.
func testClaimOnceAnAttempt(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	key := func(attempt, dispatch int) run.Key {
		return run.Key{Run: r.ID, Attempt: attempt, Dispatch: dispatch}
	}
	request := func(executor string, k run.Key) error {
		_, err := s.Claim(t.Context(), run.ClaimRequest{Key: k, Executor: executor, JournalID: "j" + executor})
		return err
	}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 2)}})
	fixture.RequireCode(t, run.CodeConflict, request("y", key(1, 1))) // queued again, and not claimed
	require.NoError(t, request("x", key(1, 2)))
	before := fixture.Get(t, s, r.ID)
	for _, k := range []run.Key{key(1, 1), key(1, 2), key(1, 3), key(1, 9)} {
		fixture.RequireCode(t, run.CodeClaimed, request("y", k))
	}
	fixture.RequireCode(t, run.CodeClaimed, request("x", key(1, 1)))
	fixture.RequireCode(t, run.CodeClaimed, request("x", key(1, 3)))
	require.Equal(t, before, fixture.Get(t, s, r.ID), "nothing has changed")
	states, err := s.ClaimStates(t.Context(), "x", []run.Key{key(1, 2)})
	require.NoError(t, err)
	require.Equal(t, run.ClaimOpen, states[key(1, 2)])

	require.NoError(t, request("y", key(2, 1)), "another attempt")
	for _, k := range []run.Key{key(1, 1), key(1, 2), key(1, 3), key(2, 2)} {
		fixture.RequireCode(t, run.CodeClaimed, request("z", k))
	}
}

func testClaimRace(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	for range 5 {
		r := fixture.Create(t, stores[0], fixture.OneTask("/a/b"))
		fixture.Begin(t, stores[0], r.ID)
		key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
		wins := fixture.Race(t, 10, func(i int) error {
			_, err := stores[i%2].Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "e" + fixture.Itoa(int64(i)), JournalID: "j"})
			return err
		}, run.CodeClaimed)
		require.Equal(t, 1, wins)
		holders, err := stores[0].Holders(t.Context(), r.ID)
		require.NoError(t, err)
		require.Equal(t, fixture.Get(t, stores[1], r.ID).Tasks[0].Executor, holders[0].Executor)
	}
}

func testClaimNewer(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	fixture.Claim(t, s, run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}) // before it was applied as queued
	task := fixture.Get(t, s, r.ID).Tasks[0]
	require.Equal(t, []any{run.StatusRunning, 1, 1, "x"}, []any{task.Status, task.Attempt, task.Dispatch, task.Executor})
	require.False(t, task.QueuedAt.IsZero())
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 2)}})
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: r.ID, Attempt: 1, Dispatch: 3}, Executor: "y", JournalID: "j"})
	require.NoError(t, err)
	task = fixture.Get(t, s, r.ID).Tasks[0]
	require.Equal(t, []any{run.StatusRunning, 1, 3, "y"}, []any{task.Status, task.Attempt, task.Dispatch, task.Executor})
	_, tasks := fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 3)}})
	require.Equal(t, run.StatusRunning, tasks[0].Status)
}

// testClaimTooOld checks that an executor gets no task whose specification has
// features that its version ignores.
func testClaimTooOld(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for name, tt := range map[string]struct {
		needs  int
		change func(*run.Spec)
	}{
		"archives": {2, func(x *run.Spec) {
			x.Tasks["build"].Steps = append(x.Tasks["build"].Steps, run.Step{ArchiveStep: run.ArchiveStep{RestoreWorkspace: &run.RestoreWorkspace{}}})
		}},
		"secret files": {3, func(x *run.Spec) {
			x.Secrets, x.SecretFiles = map[string]run.Secret{"TOKEN": "hunter2"}, []string{"TOKEN"}
		}},
		"retried steps": {4, func(x *run.Spec) {
			x.Tasks["build"].Steps[0].Retry.MaxAttempts = 2
		}},
		"services with a network": {6, func(x *run.Spec) {
			task := x.Tasks["build"]
			task.ServiceNetwork, task.Services = run.ServiceNetworkOwn, []run.ServiceSpec{{Image: "x"}}
		}},
		"persistent volumes": {7, func(x *run.Spec) {
			x.Tasks["build"].Volumes = []run.Volume{{Path: "/cache", Name: "cache"}}
		}},
		"paths of the host": {8, func(x *run.Spec) {
			x.Tasks["build"].Volumes = []run.Volume{{Path: "/mirror", HostPath: "/srv/mirror"}}
		}},
		"devices": {8, func(x *run.Spec) { x.Tasks["build"].Devices = []string{"/dev/kvm"} }},
		"steps after a stop": {4, func(x *run.Spec) {
			x.Tasks["build"].Steps = append(x.Tasks["build"].Steps, run.Step{Run: "true", When: run.WhenOnStop})
		}},
	} {
		spec := fixture.OneTask("/a/b")
		tt.change(spec)
		r := fixture.Create(t, s, spec)
		fixture.Begin(t, s, r.ID)
		key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
		before := fixture.Get(t, s, r.ID)
		for specVersion := range tt.needs {
			_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx", SpecVersion: specVersion})
			fixture.RequireCode(t, run.CodeConflict, err)
			require.ErrorContains(t, err, "executor x: the task has ", name)
			states, err := s.ClaimStates(t.Context(), "x", []run.Key{key})
			require.NoError(t, err)
			require.NotEqual(t, run.ClaimOpen, states[key], "the executor may requeue the task")
		}
		require.Equal(t, before, fixture.Get(t, s, r.ID), "nothing has changed")
		first := fixture.Claim(t, s, key)
		require.Equal(t, tt.needs, run.RequiredSpecVersion(&first))
		again, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx"})
		require.NoError(t, err, "the executor keeps what it has claimed")
		require.Equal(t, first, again)
	}
}

func testClaimRefused(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	refused := func(code run.Code, key run.Key) {
		t.Helper()
		_, err := s.Claim(ctx, run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx"})
		fixture.RequireCode(t, code, err)
	}
	r := fixture.Create(t, s, fixture.Wide("/a/b", 3))
	first := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	refused(run.CodeConflict, first) // the run has not begun
	fixture.Begin(t, s, r.ID)
	refused(run.CodeInvalid, run.Key{Run: r.ID, Attempt: 0, Dispatch: 1})
	refused(run.CodeInvalid, run.Key{Run: r.ID, Attempt: 1, Dispatch: 0})
	refused(run.CodeNotFound, run.Key{Run: r.ID, Task: 3, Attempt: 1, Dispatch: 1})

	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 2), fixture.Ended(1, 1, 1, run.StatusSuccess)}})
	refused(run.CodeConflict, first)                                                // dispatched again
	refused(run.CodeConflict, run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 1}) // final
	refused(run.CodeConflict, run.Key{Run: r.ID, Task: 1, Attempt: 2, Dispatch: 1})
	require.NoError(t, s.StopRun(ctx, r.ID, nil))
	refused(run.CodeConflict, run.Key{Run: r.ID, Attempt: 1, Dispatch: 2})

	require.NoError(t, s.CloseLost(ctx, r.ID, "gone"))
	refused(run.CodeConflict, run.Key{Run: r.ID, Task: 2, Attempt: 1, Dispatch: 1})
}

func testClaimAllowed(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Wide("/a/b", 3))
	first := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	pool := fixture.NewRun(t, fixture.Wide("/a/b", 3)).Tasks[0].Pool
	request := func(c run.ClaimRequest) error {
		t.Helper()
		if c.JournalID == "" {
			c.JournalID = "jx"
		}
		_, err := s.Claim(t.Context(), c)
		return err
	}
	fixture.RequireCode(t, run.CodeNotFound, request(run.ClaimRequest{Key: first, Executor: "x", Pool: "other"})) // also if the claim is invalid otherwise
	fixture.RequireCode(t, run.CodeNotFound, request(run.ClaimRequest{Key: first, Executor: "x", ReclaimOnly: true}))
	fixture.Begin(t, s, r.ID)
	for _, dispatch := range []int{1, 2, 99} {
		key := run.Key{Run: r.ID, Attempt: 1, Dispatch: dispatch}
		fixture.RequireCode(t, run.CodeNotFound, request(run.ClaimRequest{Key: key, Executor: "x", Pool: "other"}))
		fixture.RequireCode(t, run.CodeNotFound, request(run.ClaimRequest{Key: key, Executor: "x", Pool: pool, ReclaimOnly: true}))
	}
	require.Equal(t, run.StatusNotStarted, fixture.Get(t, s, r.ID).Tasks[0].Status)
	require.NoError(t, request(run.ClaimRequest{Key: first, Executor: "x", Pool: pool}))
	require.NoError(t, request(run.ClaimRequest{Key: first, Executor: "x", Pool: pool, ReclaimOnly: true}))
	require.NoError(t, request(run.ClaimRequest{Key: first, Executor: "x", Pool: "moved", ReclaimOnly: true}), "the executor keeps what it has claimed")
	fixture.RequireCode(t, run.CodeNotFound, request(run.ClaimRequest{Key: first, Executor: "y", Pool: pool, ReclaimOnly: true}))
	fixture.RequireCode(t, run.CodeClaimed, request(run.ClaimRequest{Key: first, Executor: "x", JournalID: "other", ReclaimOnly: true}))
}

// testClaimSet checks that members of a set share their claims.
func testClaimSet(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	for _, e := range []run.Executor{fixture.Member("a", "s"), fixture.Member("b", "s"), fixture.Member("c", "other"), fixture.Executor("d")} {
		require.NoError(t, fixture.Register(t, s, e))
	}
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	request := func(executor, set, journal string) error {
		_, err := s.Claim(ctx, run.ClaimRequest{Key: key, Executor: executor, Set: set, JournalID: journal})
		return err
	}
	require.NoError(t, request("a", "s", "js"))
	require.NoError(t, request("b", "s", "js"))
	fixture.RequireCode(t, run.CodeClaimed, request("b", "s", "another journal"))
	fixture.RequireCode(t, run.CodeClaimed, request("c", "other", "js"))
	fixture.RequireCode(t, run.CodeClaimed, request("d", "", "js"))

	holders, err := s.Holders(ctx, r.ID)
	require.NoError(t, err)
	require.Equal(t, map[int]records.Holder{0: {Key: key, Executor: "a", Set: "s"}}, holders)
	for executor, want := range map[string]run.ClaimState{
		"a": run.ClaimOpen, "b": run.ClaimOpen, "c": run.ClaimUnknown, "d": run.ClaimUnknown, "e": run.ClaimUnknown,
	} {
		states, err := s.ClaimStates(ctx, executor, []run.Key{key})
		require.NoError(t, err)
		require.Equal(t, want, states[key], executor)
	}

	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "a", 1, run.FrameStepStart)))
	for _, other := range []string{"c", "d", "e"} {
		fixture.RequireCode(t, run.CodeConflict, s.ApplyFrames(ctx, fixture.Batch(key, other, 2, run.FrameOutput)))
	}
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "b", 2, run.FrameOutput)))
	require.Equal(t, "b", fixture.Get(t, s, r.ID).Tasks[0].Executor, "the executor that sent frames last")
}

func testClaimStopRequested(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.StopRun(t.Context(), id, nil))
	fixture.Claim(t, s, key) // its own claim: the executor learns of the stop elsewhere
}

func testClaimStates(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Wide("/a/b", 3))
	fixture.Begin(t, s, r.ID)
	key := func(task, attempt, dispatch int) run.Key {
		return run.Key{Run: r.ID, Task: task, Attempt: attempt, Dispatch: dispatch}
	}
	fixture.Claim(t, s, key(0, 1, 1))
	fixture.Claim(t, s, key(1, 1, 1))
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 2)}})
	fixture.Claim(t, s, key(1, 1, 2))
	fixture.Claim(t, s, key(2, 1, 1))
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Ended(2, 1, 1, run.StatusSuccess)}})
	want := map[run.Key]run.ClaimState{
		key(0, 1, 1): run.ClaimOpen,
		key(0, 1, 2): run.ClaimUnknown,
		key(1, 1, 1): run.ClaimClosed,
		key(1, 1, 2): run.ClaimOpen,
		key(2, 1, 1): run.ClaimClosed,
		key(7, 1, 1): run.ClaimUnknown,
		{Run: "01h00000000000000000000000", Attempt: 1, Dispatch: 1}: run.ClaimUnknown,
	}
	var keys []run.Key
	for k := range want {
		keys = append(keys, k)
	}
	states, err := s.ClaimStates(t.Context(), "x", keys)
	require.NoError(t, err)
	require.Equal(t, want, states)
	states, err = s.ClaimStates(t.Context(), "y", []run.Key{key(0, 1, 1), key(1, 1, 1)})
	require.NoError(t, err)
	require.Equal(t, run.ClaimUnknown, states[key(0, 1, 1)], "another's claim is unknown")
	require.Equal(t, run.ClaimUnknown, states[key(1, 1, 1)], "the executor is of no pool")

	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 2)}})
	require.NoError(t, s.CloseLost(t.Context(), r.ID, "gone"))
	states, err = s.ClaimStates(t.Context(), "x", []run.Key{key(0, 1, 1), key(1, 1, 2)})
	require.NoError(t, err)
	require.Equal(t, map[run.Key]run.ClaimState{key(0, 1, 1): run.ClaimClosed, key(1, 1, 2): run.ClaimClosed}, states)
}

// testClaimUnclaimable distinguishes keys that an executor may still claim from
// unclaimable ones, in its own pool.
func testClaimUnclaimable(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Wide("/a/b", 3))
	fixture.Begin(t, s, r.ID)
	pool := fixture.Get(t, s, r.ID).Tasks[0].Pool
	inPool, other := fixture.Executor("a"), fixture.Executor("b")
	inPool.Pool, other.Pool = pool, pool+"-other"
	require.NoError(t, fixture.Register(t, s, inPool))
	require.NoError(t, fixture.Register(t, s, other))
	key := func(task, attempt, dispatch int) run.Key {
		return run.Key{Run: r.ID, Task: task, Attempt: attempt, Dispatch: dispatch}
	}
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 2), fixture.Queued(1, 1, 1), fixture.Ended(2, 1, 1, run.StatusFailed)}})
	request := func(executor string, want map[run.Key]run.ClaimState) {
		t.Helper()
		states, err := s.ClaimStates(t.Context(), executor, slices.Collect(maps.Keys(want)))
		require.NoError(t, err)
		require.Equal(t, want, states)
	}
	request("a", map[run.Key]run.ClaimState{
		key(0, 1, 1): run.ClaimUnclaimable, key(0, 1, 2): run.ClaimUnknown, key(0, 1, 3): run.ClaimUnknown,
		key(1, 1, 1): run.ClaimUnknown, key(2, 1, 1): run.ClaimUnclaimable, key(7, 1, 1): run.ClaimUnknown,
	})
	request("b", map[run.Key]run.ClaimState{key(0, 1, 1): run.ClaimUnknown, key(2, 1, 1): run.ClaimUnknown})
	require.NoError(t, s.CloseLost(t.Context(), r.ID, "gone"))
	request("a", map[run.Key]run.ClaimState{key(0, 1, 2): run.ClaimUnclaimable, key(1, 1, 1): run.ClaimUnclaimable})
}

func finallyTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"is_claimed_after_a_stop":        testFinallyAfterStop,
		"is_not_claimed_before":          testFinallyTooEarly,
		"reads_the_statuses_of_all":      testFinallyConditions,
		"does_not_run_in_a_cancelled":    testFinallyCancelled,
		"does_not_run_in_a_closed":       testFinallyClosed,
		"runs_again_in_a_restart":        testFinallyRestart,
		"keeps_the_slot_of_change_group": testFinallyKeepsSlot,
	}
}

// withFinally is a run of the tasks a and b, and of the finally task z.
func withFinally(change ...func(*run.Spec)) *run.Spec {
	steps := []run.Step{{Run: "true"}}
	s := &run.Spec{Name: "finally", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"a": {Pool: "linux", Steps: steps}, "b": {Pool: "linux", Steps: steps}, "z": {Pool: "linux", Steps: steps, Finally: true},
	}}
	for _, c := range change {
		c(s)
	}
	return s
}

func skippedTask(task int) run.TaskChange {
	return run.TaskChange{Task: task, Status: run.StatusSkipped, Reason: "the run was stopped"}
}

func claimError(t *testing.T, s records.Store, key run.Key) error {
	t.Helper()
	_, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx", SpecVersion: run.NewestSpecVersion})
	return err
}

func testFinallyAfterStop(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, key := fixture.Running(t, s, withFinally())
	require.True(t, fixture.Get(t, s, id).Tasks[2].Finally)
	require.False(t, fixture.Get(t, s, id).Tasks[0].Finally)
	require.NoError(t, s.StopRun(t.Context(), id, nil))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(1, 1, 1)}})
	fixture.RequireCode(t, run.CodeConflict, claimError(t, s, run.Key{Run: id, Task: 1, Attempt: 1, Dispatch: 1}))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		fixture.Ended(key.Task, 1, 1, run.StatusStopped), {Task: 1, Attempt: 1, Dispatch: 1, Status: run.StatusSkipped}, fixture.Queued(2, 1, 1),
	}})
	fixture.Claim(t, s, run.Key{Run: id, Task: 2, Attempt: 1, Dispatch: 1})
	require.Equal(t, run.StatusRunning, fixture.Get(t, s, id).Tasks[2].Status)
	fixture.Apply(t, s, id, records.Changes{
		Tasks: []run.TaskChange{fixture.Ended(2, 1, 1, run.StatusSuccess)}, Result: run.ResultStopped, Finish: true,
	})
	require.Equal(t, run.ResultStopped, fixture.Get(t, s, id).Result)
}

// An older control worker queues finally tasks with the others.
func testFinallyTooEarly(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, withFinally())
	last := run.Key{Run: id, Task: 2, Attempt: 1, Dispatch: 1}
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(2, 1, 1)}})
	fixture.RequireCode(t, run.CodeConflict, claimError(t, s, last))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusFailed)}})
	err := claimError(t, s, last)
	fixture.RequireCode(t, run.CodeConflict, err)
	require.ErrorContains(t, err, "and b has not")
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{skippedTask(1)}})
	fixture.Claim(t, s, last)
}

func testFinallyConditions(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for text, want := range map[string]run.Status{
		`tasks.a.status == "failed" && tasks.b.status == "skipped"`: run.StatusQueued,
		`tasks.b.status == "success"`:                               run.StatusSkipped,
	} {
		id, _ := fixture.Running(t, s, withFinally(func(s *run.Spec) { s.Tasks["z"].If = text }))
		_, got := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
			fixture.Ended(0, 1, 1, run.StatusFailed), skippedTask(1), fixture.Queued(2, 1, 1),
		}})
		require.Equal(t, want, got[2].Status, text)
	}
}

func testFinallyCancelled(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, withFinally(func(s *run.Spec) { s.Admission = run.AdmissionManual }))
	require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
	for _, task := range fixture.Get(t, s, r.ID).Tasks {
		require.Equal(t, run.StatusCancelled, task.Status, task.Name)
	}
}

func testFinallyClosed(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, withFinally())
	require.NoError(t, s.CloseLost(t.Context(), id, "gone"))
	r := fixture.Get(t, s, id)
	require.Equal(t, run.PhaseFinished, r.Phase)
	require.Equal(t, run.StatusSkipped, r.Tasks[2].Status)
}

func testFinallyRestart(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id, _ := fixture.Running(t, s, withFinally())
	require.NoError(t, s.CloseLost(t.Context(), id, "gone"))
	source, err := s.RestartSource(t.Context(), id)
	require.NoError(t, err)
	require.True(t, source.Spec.Tasks["z"].Finally)
	require.False(t, source.Spec.Tasks["a"].Finally)
}

func testFinallyKeepsSlot(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	_, _, err := s.PutChangeGroup(t.Context(), run.ChangeGroup{Name: "deploys", MaxRunning: 1, OnBusy: run.OnBusyQueue}, nil)
	require.NoError(t, err)
	grouped := func(s *run.Spec) { s.ChangeGroups = []string{"deploys"} }
	id, _ := fixture.Running(t, s, withFinally(grouped))
	next := fixture.Create(t, s, withFinally(grouped))
	require.NoError(t, s.StopRun(t.Context(), id, nil))
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		fixture.Ended(0, 1, 1, run.StatusStopped), skippedTask(1), fixture.Queued(2, 1, 1),
	}})
	status, err := s.Begin(t.Context(), next.ID)
	require.NoError(t, err)
	require.Equal(t, run.PhaseQueued, status.Phase, "the finally task has not ended")
	fixture.Apply(t, s, id, records.Changes{
		Tasks: []run.TaskChange{fixture.Ended(2, 1, 1, run.StatusSuccess)}, Result: run.ResultStopped, Finish: true,
	})
	_, _, err = s.Grant(t.Context(), "deploys")
	require.NoError(t, err)
	status, err = s.Begin(t.Context(), next.ID)
	require.NoError(t, err)
	require.Equal(t, run.PhaseRunning, status.Phase)
}
