package docker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestLimits checks that the driver reads each quantity that a specification
// may have.
func TestLimits(t *testing.T) {
	t.Parallel()
	for cpu, want := range map[string]int64{"2": 2e9, "500m": 5e8, "0.25": 25e7, "100u": 1e5, "1n": 1, "1e1": 1e10, "1k": 1e12} {
		got, err := limits(run.Resources{CPU: cpu})
		require.NoError(t, err, cpu)
		require.Equal(t, want, got.NanoCPUs, cpu)
	}
	for memory, want := range map[string]int64{"4Gi": 4 << 30, "512M": 512e6, "1.5Gi": 3 << 29, "2e9": 2e9, "1E": 1e18, "64000000000n": 64, "1m": 1} {
		got, err := limits(run.Resources{Memory: memory})
		require.NoError(t, err, memory)
		require.Equal(t, want, got.Memory, memory)
		require.Equal(t, want, got.MemorySwap, memory)
		options, err := tmpfsOptions(memory)
		require.NoError(t, err, memory)
		require.Regexp(t, `,size=\d+$`, options)
	}
	for _, text := range []string{"0", "-1", "4GB", "1/2", "1e99"} {
		_, err := limits(run.Resources{CPU: text})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), text)
		_, err = limits(run.Resources{Memory: text})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), text)
		_, err = tmpfsOptions(text)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), text)
	}
}
