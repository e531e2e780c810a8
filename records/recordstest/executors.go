package recordstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func executorTests() map[string]func(t *testing.T, d *database) {
	return map[string]func(t *testing.T, d *database){
		"register_and_renew":       testRegister,
		"one_journal_holds_an_id":  testRegisterConflict,
		"make_and_fit_their_pool":  testPools,
		"pools_count_their_demand": testDemand,
	}
}

func executor(id string) run.Executor {
	return run.Executor{
		ID: id, Pool: "linux", Driver: "docker", OS: "linux", Arch: "amd64", Labels: map[string]string{"gpu": "no"},
		Privileged: true, Slots: 4, SlotsUsed: 1, Version: "1.2.3", JournalID: "j-" + id,
	}
}

func register(t *testing.T, s records.Store, e run.Executor) error {
	_, err := s.RegisterExecutor(t.Context(), e)
	return err
}

func renew(t *testing.T, s records.Store, r run.Renewal) error {
	_, err := s.RenewExecutor(t.Context(), r)
	return err
}

func testRegister(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	requireCode(t, run.CodeNotFound, renew(t, s, run.Renewal{Executor: "b", JournalID: "j-b"}))
	require.NoError(t, register(t, s, executor("b")))
	require.NoError(t, register(t, s, executor("a")))
	list, err := s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	want := executor("a")
	want.State, want.RegisteredAt, want.LastContact = run.ExecutorOnline, list[0].RegisteredAt, list[0].LastContact
	require.Equal(t, want, list[0])
	require.WithinDuration(t, time.Now(), list[0].RegisteredAt, time.Minute)

	d.clock.advance(run.ExecutorTimeout - time.Second)
	require.NoError(t, renew(t, s, run.Renewal{Executor: "a", JournalID: "j-a", SlotsUsed: 3, Draining: true}))
	d.clock.advance(2 * time.Second)
	list, err = s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Equal(t, run.ExecutorDraining, list[0].State)
	require.Equal(t, 3, list[0].SlotsUsed)
	require.Equal(t, run.ExecutorOffline, list[1].State)
	require.NoError(t, renew(t, s, run.Renewal{Executor: "b", JournalID: "j-b"}))
	registered := list[1].RegisteredAt
	e := executor("b")
	e.Slots = 9
	require.NoError(t, register(t, s, e))
	list, err = s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Equal(t, run.ExecutorOnline, list[1].State)
	require.Equal(t, 9, list[1].Slots)
	require.Equal(t, registered, list[1].RegisteredAt)
}

func testRegisterConflict(t *testing.T, d *database) {
	s := d.store(t)
	require.NoError(t, register(t, s, executor("a")))
	other := executor("a")
	other.JournalID = "other"
	requireCode(t, run.CodeConflict, register(t, s, other))
	requireCode(t, run.CodeConflict, renew(t, s, run.Renewal{Executor: "a", JournalID: "other"}))
	d.clock.advance(run.ExecutorTimeout + time.Second)
	requireCode(t, run.CodeNotFound, renew(t, s, run.Renewal{Executor: "a", JournalID: "other"}))
	require.NoError(t, register(t, s, other), "the other process is silent")
	requireCode(t, run.CodeConflict, renew(t, s, run.Renewal{Executor: "a", JournalID: "j-a"}))
}

func testPools(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	require.NoError(t, register(t, s, executor("a")))
	for name, change := range map[string]func(e *run.Executor){
		"driver": func(e *run.Executor) { e.Driver = "shell" },
		"os":     func(e *run.Executor) { e.OS = "windows" },
		"arch":   func(e *run.Executor) { e.Arch = "arm64" },
	} {
		e := executor("b")
		change(&e)
		err := register(t, s, e)
		requireCode(t, run.CodeInvalid, err)
		require.ErrorContains(t, err, name)
	}
	list, err := s.ListExecutors(ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	shell := executor("c")
	shell.Pool, shell.Driver, shell.Labels = "shell", "shell", nil
	require.NoError(t, register(t, s, shell))
	pools, err := s.ListPools(ctx)
	require.NoError(t, err)
	require.Equal(t, []run.Pool{
		{
			Name: "linux", Driver: "docker", OS: "linux", Arch: "amd64", Labels: map[string]string{"gpu": "no"}, Privileged: true,
			Online: 1, Slots: 4, SlotsUsed: 1,
		},
		{Name: "shell", Driver: "shell", OS: "linux", Arch: "amd64", Privileged: true, Online: 1, Slots: 4, SlotsUsed: 1},
	}, pools)
	d.clock.advance(run.ExecutorTimeout + time.Second)
	pools, err = s.ListPools(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 0, 0}, []int{pools[0].Online, pools[0].Offline, pools[0].Slots, pools[0].SlotsUsed}, "a pool stays without executors")
}

func testDemand(t *testing.T, d *database) {
	s := d.store(t)
	require.NoError(t, register(t, s, executor("a")))
	r := create(t, s, wide("/a/b", 30))
	begin(t, s, r.ID)
	var c records.Changes
	for i := range 20 {
		c.Tasks = append(c.Tasks, queued(i, 1, 1))
	}
	apply(t, s, r.ID, c)
	for i := range 5 {
		claim(t, s, run.Key{Run: r.ID, Task: i, Attempt: 1, Dispatch: 1})
	}
	apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{ended(0, 1, 1, run.StatusSuccess)}})
	pools, err := s.ListPools(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{15, 4}, []int{pools[0].Queued, pools[0].Running})
	require.Positive(t, pools[0].MeanElapsed)
	require.Less(t, pools[0].MeanElapsed, time.Hour)
}
