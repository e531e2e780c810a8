package controller_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// These tests cover common complaints about autoscalers: see
// docs/fleets-faults.md.

func TestFleet_other_settings_disturb_no_machine(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	w.start()
	id := w.submit(2)
	w.awaitCount(run.InstanceReady, 2)
	for task, machine := range w.cloud.running() {
		require.NoError(t, w.claim(id, task, machine))
	}
	// The limits and the policy change: the machines stay.
	w.put(func(s *run.FleetSpec) {
		s.CapacityPerInstance, s.MaxUseCount, s.Policy = 1, 7, []run.ScalingPolicy{{IdleCount: 1}}
	})
	w.awaitCount(run.InstanceReady, 3)
	w.cloud.do(func() {
		require.Equal(t, 1, w.cloud.opened)
		require.Equal(t, []int{2, 1}, w.cloud.increases, "the new policy needs one more")
		require.Empty(t, w.cloud.decreases)
	})
	for _, i := range w.ledger() {
		require.Equal(t, run.InstanceReady, i.State)
		require.Equal(t, run.CauseRequested, i.Cause, "no instance is unexpected")
	}
}

func TestFleet_keeps_its_size_while_hundreds_wait(t *testing.T) {
	t.Parallel()
	const maximum, tasks, finished = 5, 300, 30
	w := newEnv(t)
	w.put(func(s *run.FleetSpec) { s.MaxInstances = maximum })
	w.start()
	id := w.submit(tasks)
	w.awaitCount(run.InstanceReady, maximum)
	machines := w.cloud.running()
	for task := range finished {
		require.NoError(t, w.claim(id, task, machines[task%maximum]))
		w.finish(id, task)
	}
	w.await("a status with the tasks that still wait", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.Queued == tasks-finished
	})
	require.Len(t, w.ledger(), maximum, "no machine was deleted or replaced")
	require.False(t, slices.ContainsFunc(w.ledger(), func(i run.FleetInstance) bool { return i.State != run.InstanceReady }))
}

// TestFaults_page checks that every test that the page names exists.
func TestFaults_page(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "fleets-faults.md"))
	require.NoError(t, err)
	var sources strings.Builder
	for _, dir := range []string{".", "..", "../fleetingtest", "../scaling", "../../test/fleet"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			sources.Write(text)
		}
	}
	names := regexp.MustCompile(`\bTest\w+`).FindAllString(string(page), -1)
	require.Greater(t, len(names), 50)
	require.Empty(t, slices.DeleteFunc(names, func(name string) bool { return strings.Contains(sources.String(), "func "+name+"(") }), "the page names tests that do not exist")
}
