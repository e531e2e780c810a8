package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFailures_page checks that the tests exist that docs/failures.md names. A
// name has the directory of its package before it, unless that is test. A name
// of a case of a conformance suite may end with a star.
func TestFailures_page(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/failures.md")
	require.NoError(t, err)
	sources := map[string]string{}
	n := 0
	for row := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if len(cells) < 6 {
			continue
		}
		for _, m := range regexp.MustCompile("`(?:([\\w/]+): )?(\\w+)\\*?`").FindAllStringSubmatch(cells[len(cells)-1], -1) {
			dir, name := m[1], m[2]
			if dir == "" {
				dir = "test"
			}
			if sources[dir] == "" {
				sources[dir] = sourceOf(t, dir)
			}
			want := `{name: "` + name
			if strings.HasPrefix(name, "Test") {
				want = "func " + name + "("
			}
			if !strings.Contains(sources[dir], want) {
				t.Errorf("the page names %s of %s, which does not exist", name, dir)
			}
			n++
		}
	}
	require.Greater(t, n, 50, "tests that the page names")
}

// sourceOf returns the text of all Go files of a directory of the repository, and for
// test also of the tests in its packages.
func sourceOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	require.NoError(t, err)
	if dir == "test" {
		below, err := filepath.Glob("../../test/*/*_test.go")
		require.NoError(t, err)
		files = append(files, below...)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
