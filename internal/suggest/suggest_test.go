package suggest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"steps", "skip", "shell", "services", "a"}
	for word, want := range map[string]string{
		"step": "steps", "stpes": "steps", "shel": "shell", "sevrices": "services", "x": "", "deploy": "", "steps": "", "skpi": "skip", "": "",
		strings.Repeat("s", MaxLength+1): "",
	} {
		require.Equal(t, want, Nearest(word, known), word)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"abc", "ab", 1},
		{"abc", "axc", 1},
		{"abcd", "abdc", 1},
		{"kitten", "sitting", 3},
		{"ca", "abc", 3},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, distance(tt.a, tt.b), "%s %s", tt.a, tt.b)
	}
}

// TestDistance_of_edits checks that n edits are a distance of at most n, that the
// distance is symmetric, and that only equal words have none.
func TestDistance_of_edits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := []byte(rapid.StringMatching(`[a-c]{0,12}`).Draw(t, "word"))
		edited, n := append([]byte(nil), word...), rapid.IntRange(0, 4).Draw(t, "edits")
		for range n {
			i := rapid.IntRange(0, len(edited)).Draw(t, "at")
			letter := rapid.SampledFrom([]byte("abc")).Draw(t, "letter")
			switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
			case kind == 0:
				edited = append(edited[:i], append([]byte{letter}, edited[i:]...)...)
			case i == len(edited):
			case kind == 1:
				edited = append(edited[:i], edited[i+1:]...)
			default:
				edited[i] = letter
			}
		}
		d := distance(string(word), string(edited))
		require.LessOrEqual(t, d, n)
		require.Equal(t, d, distance(string(edited), string(word)))
		require.Equal(t, string(word) == string(edited), d == 0)
	})
}
