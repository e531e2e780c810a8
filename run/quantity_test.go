package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestParseQuantities(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"2": 2e9, "0.5": 5e8, "500m": 5e8, ".25": 25e7, "1e1": 1e10, "1": 1e9, "100u": 1e5, "1n": 1, "1.": 1e9, "0.0000000001": 1,
	} {
		n, err := run.ParseCPU(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for text, want := range map[string]int64{
		"4Gi": 4 << 30, "512M": 512e6, "512Mi": 512 << 20, "64k": 64e3, "1073741824": 1 << 30, "1.5Gi": 3 << 29, "1E": 1e18, "2e3": 2000,
		"1Ei": 1 << 60, "12E-1": 2,
	} {
		n, err := run.ParseMemory(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "0", "-1", "+1", "4GB", "4 Gi", "1/2", "0x10", "Mi", "1e99", "100E", "∞", ".", "1ee1", "1Kii"} {
		_, err := run.ParseCPU(text)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), text)
		_, err = run.ParseMemory(text)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), text)
	}
}
