package docker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestQuantity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		scale int64
		want  int64
	}{
		{"2", 1e9, 2e9},
		{"500m", 1e9, 5e8},
		{"0.25", 1e9, 25e7},
		{"4Gi", 1, 4 << 30},
		{"512M", 1, 512e6},
		{"64Ki", 1, 64 << 10},
		{"1k", 1, 1000},
		{"1.5Gi", 1, 3 << 29},
		{"1m", 1, 1}, // rounded up
		{"2E", 1, 2e18},
	} {
		got, err := quantity(c.text, c.scale)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, c.text)
	}
}

func TestQuantity_refuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0", "-1", "x", "1x", "1mi", "1ki", "1KiB", "Gi", "1/2", "1e999999999", "0x10", "1_000", "9E9", "1MG", ".", "99999999999E"} {
		_, err := quantity(text, 1)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%q", text)
	}
}

func FuzzQuantity(f *testing.F) {
	f.Add("4Gi")
	f.Add("500m")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := quantity(text, 1e9)
		if err == nil {
			require.Positive(t, n)
		}
	})
}
