package shell_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shell"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func definition(n int, scripts ...string) run.Definition {
	d := run.Definition{
		Key:  run.Key{Run: "01aaaaaaaaaaaaaaaaaaaaaaaa", Task: n, Attempt: 1, Dispatch: 1},
		Task: "t", Shell: run.DefaultShell(), Grace: run.StopGrace,
	}
	for _, s := range scripts {
		d.Steps = append(d.Steps, run.StepDef{Script: s, When: run.WhenOnSuccess})
	}
	return d
}

// BenchmarkDriver_no_op is a task from Start to the frame of its end.
func BenchmarkDriver_no_op(b *testing.B) {
	d, err := shell.New(shell.Options{StateDir: b.TempDir(), ShimPath: testenv.BuildShim(b)})
	require.NoError(b, err)
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		h, err := d.Start(b.Context(), executor.Task{Definition: definition(len(times), "true"), Launch: func() (int64, error) { return 1, nil }})
		require.NoError(b, err)
		for f, err := range h.Events(b.Context(), 1) {
			require.NoError(b, err)
			if f.Kind == run.FrameTaskEnd {
				require.Equal(b, run.StatusSuccess, f.Result.Status)
			}
		}
		times = append(times, time.Since(began))
		b.StopTimer()
		require.NoError(b, h.Remove(b.Context()))
		b.StartTimer()
	}
	report(b, times)
}

// BenchmarkBare is what the driver is measured against: the same shell without
// anything around it.
func BenchmarkBare(b *testing.B) {
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		require.NoError(b, exec.CommandContext(b.Context(), "/bin/sh", "-ec", "true").Run())
		times = append(times, time.Since(began))
	}
	report(b, times)
}

func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	for name, at := range map[string]int{"p50": len(times) / 2, "p95": len(times) * 95 / 100, "min": 0} {
		b.ReportMetric(float64(times[at].Microseconds())/1000, name+"-ms")
	}
}
