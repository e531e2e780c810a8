package archive_test

import (
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/drover-run/drover/run"
)

// FuzzValidGlob holds what a specification may say to what the library takes.
func FuzzValidGlob(f *testing.F) {
	for _, glob := range []string{"", "a/**", "{a,{b,c}}", "[^]]", "[a-c]?", `\`, `[\]]`, "[!", "}{", "[]"} {
		f.Add(glob)
	}
	f.Fuzz(func(t *testing.T, glob string) {
		if got, want := run.ValidGlob(glob), doublestar.ValidatePattern(glob); got != want {
			t.Errorf("%q: %v, where the library says %v", glob, got, want)
		}
	})
}
