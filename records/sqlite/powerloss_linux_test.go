package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// TestStore_survives_a_loss_of_power cuts the power while clients create runs
// and claim tasks: all acknowledged claims are stored afterwards.
func TestStore_survives_a_loss_of_power(t *testing.T) {
	t.Parallel()
	const clients, rounds, limit = 4, 5, 200
	disk := testenv.RequireDisk(t)
	path := filepath.Join(disk.Dir, "new", "drover.db")
	x, faults := spec.Expand(&run.Spec{
		Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"build": {Steps: []run.Step{{Run: "true"}}}},
	}, nil)
	require.Empty(t, faults)
	spec := &run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"build": {Steps: []run.Step{{Run: "true"}}}}}
	var mu sync.Mutex
	var claimed []run.Key
	total := 0
	for round := range rounds {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		require.NoError(t, err)
		cut := false
		claim := func() error {
			r, err := s.CreateRun(t.Context(), records.NewRun{Spec: spec, Plan: x.Plan, Tasks: x.Tasks})
			if err != nil {
				return err
			}
			if _, err = s.Begin(t.Context(), r.ID); err != nil {
				return err
			}
			key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
			if _, err = s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "j"}); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if !cut {
				claimed = append(claimed, key)
			}
			return nil
		}
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range limit {
					if claim() != nil {
						return
					}
				}
			})
		}
		testenv.Await(t, func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			return len(claimed) >= total+3*(round+1), "too few claims"
		})
		mu.Lock()
		cut = true
		mu.Unlock()
		disk.CutPower()
		all.Wait()
		_ = s.Close() // it cannot write
		disk.RestorePower()
		total = len(claimed)
		s, err = sqlite.Open(t.Context(), path, sqlite.Options{})
		require.NoError(t, err)
		states, err := s.ClaimStates(t.Context(), "x", claimed)
		require.NoError(t, err)
		for _, key := range claimed {
			require.Equal(t, run.ClaimOpen, states[key], "a claim that was acknowledged was lost; there were %d", len(claimed))
		}
		require.NoError(t, s.Close())
		t.Logf("round %d: %d claims are there", round, total)
	}
}
