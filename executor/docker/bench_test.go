package docker_test

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
)

// BenchmarkTask runs a task of one command with its image present, alternating
// with a plain "docker run --rm" of the same command. Besides the time until
// the task is removed ("ns/op") it reports the time of docker run and two
// ratios to it: until the task's result is known, and until the task is
// removed.
func BenchmarkTask(b *testing.B) {
	e := newBench(b)
	if _, err := exec.LookPath("docker"); err != nil {
		b.Skip("no docker command line to compare with")
	}
	e.timeTask(b) // fills the shared volume
	var ended, removed, plain time.Duration
	for b.Loop() {
		toEnd, toRemoval := e.timeTask(b)
		ended, removed = ended+toEnd, removed+toRemoval
		b.StopTimer()
		began := time.Now()
		out, err := exec.CommandContext(b.Context(), "docker", "run", "--rm", e.image, "/bin/sh", "-ec", "true").CombinedOutput()
		require.NoError(b, err, string(out))
		plain += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(plain)/float64(b.N), "docker-run-ns/op")
	b.ReportMetric(float64(ended)/float64(plain), "end-ratio")
	b.ReportMetric(float64(removed)/float64(plain), "removal-ratio")
}

func (b *bench) timeTask(t testing.TB) (toEnd, toRemoval time.Duration) {
	t.Helper()
	began := time.Now()
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: b.definition(t, "true"), Launch: launchAt(1)})
	require.NoError(t, err)
	for _, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
	}
	toEnd = time.Since(began)
	require.NoError(t, h.Remove(context.WithoutCancel(t.Context())))
	return toEnd, time.Since(began)
}
