package docker_test

import (
	"testing"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// TestHandle_Events_killed_after_a_lack_of_memory kills a container in which another process
// than its first was killed at the memory limit before.
func TestHandle_Events_killed_after_a_lack_of_memory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "tail /dev/zero || sleep 300")
	def.Resources.Memory = "64Mi"
	h, name := b.start(t, def), "drover-"+def.Key.String()
	lacks, fault := b.cli.Events(t.Context(), events.ListOptions{
		Since:   "0",
		Filters: filters.NewArgs(filters.Arg("container", name), filters.Arg("event", string(events.ActionOOM))),
	})
	select {
	case <-lacks:
	case err := <-fault:
		require.NoError(t, err)
	}
	require.NoError(t, b.cli.ContainerKill(t.Context(), name, "SIGKILL"))
	err := followToError(t, h)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	require.Equal(t, run.CauseVanished, executor.CauseOf(err), "%v", err)
	require.ErrorContains(t, err, "killed from outside")
}

// TestDriver_memory_runs_out_between_steps: a process that an earlier step left is killed
// while no step of its container runs.
func TestDriver_memory_runs_out_between_steps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const (
		leave   = "(until [ -e go ]; do sleep 0.05; done; tail /dev/zero || touch ended) > /dev/null 2>&1 &"
		provoke = "touch go; until [ -e ended ]; do sleep 0.05; done"
	)
	for name, inHelper := range map[string]map[int]bool{
		"of the task":             {1: true},
		"of the helper container": {0: true, 2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def := b.definition(t, leave, provoke, "exit 3")
			def.WorkingDir, def.Resources.Memory = run.SharedWorkingDir, "64Mi"
			for n := range inHelper {
				def.Steps[n].Image = b.image
			}
			r := b.finish(t, def).result
			require.Equal(t, run.CauseStep, r.Cause, r.Reason)
			require.Equal(t, "step 3 exited with code 3; the kernel killed 1 process because memory ran out (limit 64Mi), before step 3", r.Reason)
		})
	}
}
