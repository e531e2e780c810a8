package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const repository = "../../.."

// fewest is the number of test functions of c952a742. Tests may move; none is lost.
const fewest = 1444

// TestStages checks that a stage runs each test of the repository, and that no other runs
// the whole of it.
func TestStages(t *testing.T) {
	t.Parallel()
	packages, err := load(repository)
	require.NoError(t, err)
	tests := testsOf(packages)
	require.GreaterOrEqual(t, len(tests), fewest, "test functions")
	runs := map[test]int{}
	for _, s := range stages() {
		calls, err := callsOf(s.name, packages)
		require.NoError(t, err)
		require.NotEmpty(t, calls, "the stage %s", s.name)
		for _, x := range tests {
			for _, c := range calls {
				for _, pattern := range c.packages {
					whole := c.run == allTests && s.name == x.stage
					if c.module == x.module && filepath.Clean(pattern) == x.dir && (whole || c.run != allTests && matches(t, c.run, x.name)) {
						runs[x]++
						require.Equal(t, s.name, x.stage, "%+v", x)
					}
				}
			}
		}
	}
	for _, x := range tests {
		require.Equal(t, 1, runs[x], "%+v", x)
	}
}

func matches(t *testing.T, expr, name string) bool {
	t.Helper()
	ok, err := regexp.MatchString(strings.Split(expr, "/")[0], name)
	require.NoError(t, err)
	return ok
}

// TestStages_modules checks that no module with tests is forgotten.
func TestStages_modules(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, module := range modules() {
		known[module] = true
	}
	files, err := filepath.Glob(filepath.Join(repository, "*", "*", "go.mod"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(repository, "*", "go.mod"))
	require.NoError(t, err)
	for _, file := range append(files, more...) {
		dir, err := filepath.Rel(repository, filepath.Dir(file))
		require.NoError(t, err)
		tests, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*_test.go"))
		require.NoError(t, err)
		if len(tests) > 0 {
			require.True(t, known[filepath.ToSlash(dir)], "the module %s", dir)
		}
	}
}

// TestSmoke checks that the cases of a conformance suite exist that smoke names.
func TestSmoke(t *testing.T) {
	t.Parallel()
	packages, err := load(repository)
	require.NoError(t, err)
	var suite strings.Builder
	files, err := filepath.Glob(filepath.Join(repository, "executor", "executortest", "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		suite.Write(text)
	}
	for _, c := range smokeCalls() {
		for _, pattern := range c.packages {
			found := 0
			for _, x := range testsOf(packages) {
				if x.module == c.module && filepath.Clean(pattern) == x.dir && matches(t, c.run, x.name) {
					found++
				}
			}
			require.Positive(t, found, "tests of %s that %s names", pattern, c.run)
		}
		if _, cases, ok := strings.Cut(c.run, "/"); ok && c.packages[0] == "./executor/docker" {
			for name := range strings.SplitSeq(strings.Trim(cases, "^()$"), "|") {
				require.Regexp(t, `"`+name+`["/]`, suite.String())
			}
		}
	}
}

// TestReadTests finds what a test uses, also through other functions of its package.
func TestReadTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(`package a

import "testing"

func TestMain(m *testing.M) { m.Run() }
func TestPlain(t *testing.T) {}
func TestBelow(t *testing.T) { t.Run("x", helper) }
func TestDirect(t *testing.T) { testenv.Missing(t, "python", "", "") }
func Testing(t *testing.T) {}
func helper(t *testing.T) { testenv.RequireDocker(t) }
func (x x) TestMethod(t *testing.T) {}
func FuzzX(f *testing.F) {}
`), 0o600))
	tests, err := readTests(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]map[string]bool{
		"TestPlain": {}, "TestBelow": {"docker": true}, "TestDirect": {"python": true}, "FuzzX": {},
	}, tests)
}
