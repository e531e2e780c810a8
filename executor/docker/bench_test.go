package docker_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
)

// BenchmarkTask is a task of one command with its image present, to compare
// with BenchmarkDockerRun: "to-end" until its result is known, "to-removal"
// until nothing of it is left.
func BenchmarkTask(b *testing.B) {
	for _, removed := range []bool{false, true} {
		name := "to-end"
		if removed {
			name = "to-removal"
		}
		b.Run(name, func(b *testing.B) {
			e := newBench(b)
			for b.Loop() {
				h, err := e.driver.Start(b.Context(), executor.Task{Definition: e.definition(b, "true"), Launch: launchAt(1)})
				require.NoError(b, err)
				for _, err := range h.Events(b.Context(), 1) {
					require.NoError(b, err)
				}
				if !removed {
					b.StopTimer()
				}
				require.NoError(b, h.Remove(b.Context()))
				if !removed {
					b.StartTimer()
				}
			}
		})
	}
}

// BenchmarkDockerRun is the same command in a plain docker run.
func BenchmarkDockerRun(b *testing.B) {
	e := newBench(b)
	if _, err := exec.LookPath("docker"); err != nil {
		b.Skip("no docker command line to compare with")
	}
	for b.Loop() {
		out, err := exec.CommandContext(b.Context(), "docker", "run", "--rm", e.image, "/bin/sh", "-ec", "true").CombinedOutput()
		require.NoError(b, err, string(out))
	}
}
