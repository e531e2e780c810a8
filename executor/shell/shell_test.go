package shell_test

import (
	"testing"

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

func BenchmarkDriver_no_op(b *testing.B) {
	d, err := shell.New(shell.Options{StateDir: b.TempDir(), ShimPath: testenv.BuildShim(b)})
	require.NoError(b, err)
	n := 0
	for b.Loop() {
		n++
		h, err := d.Start(b.Context(), executor.Task{Definition: definition(n, "true"), Launch: func() (int64, error) { return 1, nil }})
		require.NoError(b, err)
		for f, err := range h.Events(b.Context(), 1) {
			require.NoError(b, err)
			if f.Kind == run.FrameTaskEnd {
				require.Equal(b, run.StatusSuccess, f.Result.Status)
			}
		}
		b.StopTimer()
		require.NoError(b, h.Remove(b.Context()))
		b.StartTimer()
	}
}
