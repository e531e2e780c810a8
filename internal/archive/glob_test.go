package archive_test

import (
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/drover-run/drover/spec"
)

// FuzzValidGlob compares the validation of specifications with the glob
// library.
func FuzzValidGlob(f *testing.F) {
	for _, glob := range []string{"", "a/**", "{a,{b,c}}", "[^]]", "[a-c]?", `\`, `[\]]`, "[!", "}{", "[]"} {
		f.Add(glob)
	}
	f.Fuzz(func(t *testing.T, glob string) {
		if got, want := spec.ValidGlob(glob), doublestar.ValidatePattern(glob); got != want {
			t.Errorf("%q: %v, but the library returns %v", glob, got, want)
		}
	})
}
