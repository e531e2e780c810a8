package archtest_test

import (
	"bufio"
	"go/build/constraint"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lintRun is a run of the linters in the Makefile.
type lintRun struct {
	tags     []string
	patterns []string
}

// covers reports whether the run reads a file with a build constraint on Linux.
func (r lintRun) covers(file string, x constraint.Expr) bool {
	inPackages := slices.ContainsFunc(r.patterns, func(pattern string) bool {
		dir, below := strings.CutSuffix(pattern, "/...")
		dir = path.Clean(dir)
		return path.Dir(file) == dir || below && (dir == "." || strings.HasPrefix(file, dir+"/"))
	})
	return inPackages && x.Eval(func(tag string) bool { return tag == "linux" || tag == "unix" || slices.Contains(r.tags, tag) })
}

// TestLint_tags checks that make lint reads the files with build tags of this repository.
func TestLint_tags(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	var runs []lintRun
	for _, m := range regexp.MustCompile(`(?m)^\t\$\(TOOL\) golangci-lint run(?: --build-tags (\S+))?((?: \./\S+)+)$`).FindAllStringSubmatch(string(makefile), -1) {
		runs = append(runs, lintRun{tags: strings.Split(m[1], ","), patterns: strings.Fields(m[2])})
	}
	require.NotEmpty(t, runs)
	// Constraints with these alone are for systems. Under race, linters would compile the
	// standard library again.
	others := []string{"linux", "unix", "race"}
	root, tagged := os.DirFS("../.."), 0
	require.NoError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		x := constraintOf(t, root, name)
		if x == nil {
			return nil
		}
		own := false
		x.Eval(func(tag string) bool { own = own || !slices.Contains(others, tag); return false })
		if !own {
			return nil
		}
		tagged++
		if !slices.ContainsFunc(runs, func(r lintRun) bool { return r.covers(name, x) }) {
			t.Errorf("%s: no run of the linters in the Makefile has the tags of %s", name, x)
		}
		return nil
	}))
	require.Positive(t, tagged)
}

// constraintOf returns the build constraint of a Go file, nil if it has none.
func constraintOf(t *testing.T, root fs.FS, name string) constraint.Expr {
	t.Helper()
	f, err := root.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for lines := bufio.NewScanner(f); lines.Scan() && !strings.HasPrefix(lines.Text(), "package "); {
		if constraint.IsGoBuild(lines.Text()) {
			x, err := constraint.Parse(lines.Text())
			require.NoError(t, err, name)
			return x
		}
	}
	return nil
}
