package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
	// A service that a stage does not require would let its tests be skipped.
	for _, p := range packages {
		for name, services := range p.tests {
			s, err := find(stageOf(p, name))
			require.NoError(t, err)
			for service := range services {
				require.Contains(t, s.services, service, "the services of the stage %s, for %s in %s", s.name, name, p.dir)
			}
		}
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

// TestQuarantine checks the lines of the quarantine, and that the file of the repository
// has no others.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	packages, err := load(repository)
	require.NoError(t, err)
	_, err = readQuarantine(filepath.Join(repository, quarantineFile), packages)
	require.NoError(t, err)

	now := time.Date(2026, 1, 20, 12, 0, 0, 0, time.UTC)
	line := "internal/testenv/stages TestSmoke 2026-01-19 fails once a day\n"
	for name, tt := range map[string]struct{ text, fault string }{
		"a line":        {"# a comment\n\n" + line, ""},
		"five lines":    {strings.Repeat(line, 5), ""},
		"six lines":     {strings.Repeat(line, 6), "at most 5"},
		"no such test":  {"internal/testenv/stages TestNone 2026-01-19 x\n", "there is no test"},
		"no such place": {"internal/testenv TestSmoke 2026-01-19 x\n", "there is no test"},
		"no reason":     {"internal/testenv/stages TestSmoke 2026-01-19\n", "is not: package"},
		"no date":       {"internal/testenv/stages TestSmoke yesterday x\n", "the date"},
		"several of it": {"run TestPage_variables 2026-01-19 x\n", "several packages"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "quarantine.txt")
			require.NoError(t, os.WriteFile(file, []byte(tt.text), 0o600))
			all, err := readQuarantine(file, packages)
			if tt.fault != "" {
				require.ErrorContains(t, err, tt.fault)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "TestSmoke", all[0].name)
			require.Equal(t, "fails once a day", all[0].reason)
			require.False(t, all[0].expired(now))
			require.True(t, all[0].expired(now.Add(quarantine)))
		})
	}
}

// TestCallsOfChanged separates the changed tests that the gate repeats from the others.
func TestCallsOfChanged(t *testing.T) {
	t.Parallel()
	packages, err := load(repository)
	require.NoError(t, err)
	calls, others := callsOfChanged(packages, map[string]bool{
		"internal/testenv/stages TestSmoke": true, "plugins/docker TestInit_refuses": true, "test/kill TestKill_dev": true,
	})
	require.Equal(t, []call{{module: root, minutes: 5, run: "^(TestSmoke)$", packages: []string{"./internal/testenv/stages"}}}, calls[:1])
	require.Equal(t, []test{{root, "test/kill", "TestKill_dev", "kill"}, {"plugins", "docker", "TestInit_refuses", "docker"}}, others)
}

// TestTestTexts reads the texts by which changed tests are found.
func TestTestTexts(t *testing.T) {
	t.Parallel()
	texts, err := testTexts("x_test.go", "package x\n\n// A comment.\nfunc TestA(t *testing.T) { a() }\n\nfunc helper() {}\n")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"TestA": "func TestA(t *testing.T) { a() }"}, texts)
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
