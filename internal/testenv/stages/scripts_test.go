package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runScript runs lines of bash with the functions of .ci/stages, in an empty directory.
func runScript(t *testing.T, cache, script string) (output string, code int) {
	t.Helper()
	repo, err := filepath.Abs(repository)
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail; . "+`"$REPO/.ci/stages"`+"\n"+script)
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "REPO="+repo, "XDG_CACHE_HOME="+cache, "GIT_CEILING_DIRECTORIES="+filepath.Dir(c.Dir))
	out, err := c.CombinedOutput()
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError), "%s", out)
	}
	return string(out), c.ProcessState.ExitCode()
}

// flakyStages is a run of two stages with so many flaky tests each.
func flakyStages(first, second string) string {
	return `
flaky() { # STAGE NAME...
	mkdir -p .bin/test/$1/flaky
	for name in "${@:2}"; do printf 'FLAKY m/a.%s: failed 1 of 2 times\nits output\n' "$name" > ".bin/test/$1/flaky/m_a.$name.log"; done
}
export -f flaky
stage "tests" 1 bash -c 'flaky unit ` + first + `'
stage "web UI" 1 bash -c 'flaky web ` + second + `'
limit_flaky 3
summary`
}

// TestFlaky_limit counts the flaky tests of all stages, of Go and of the web UI.
func TestFlaky_limit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, second string
		code          int
	}{
		"none":  {"", "", 0},
		"three": {"TestA TestB", "page", 0},
		"four":  {"TestA TestB", "page list", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := runScript(t, t.TempDir(), flakyStages(tt.first, tt.second))
			require.Equal(t, tt.code, code, out)
			require.Equal(t, code == 1, strings.Contains(out, "4 tests were flaky"), out)
		})
	}
}

// TestFlakes lists the flaky tests of several runs, of which one was red.
func TestFlakes(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	flakes := func() string {
		out, code := runScript(t, cache, `"$REPO/.ci/flakes"`)
		require.Zero(t, code, out)
		return out
	}
	require.Contains(t, flakes(), "no test was flaky")
	// A second between the runs would give their directories names of their own.
	for i, second := range []string{"page", "page list tree", "page"} {
		_, code := runScript(t, cache, "flaky_logs+="+string(rune('a'+i))+"\n"+flakyStages("TestA", second))
		require.Equal(t, i%2, code)
	}
	out := flakes()
	require.Regexp(t, `(?s)^ +3 times  m/a.TestA\n +\S*c/unit/m_a.TestA.log\n +3 times  m/a.page\n.* 1 times  m/a.list\n`, out)
}

// portability runs .ci/portability in a repository that borrows objects of another one,
// with scripts of bash in place of programs.
func portability(t *testing.T, run string, programs map[string]string) (output string, code int) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+script), 0o700))
	}
	return runScript(t, t.TempDir(), `
export TMPDIR=$PWD GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@example.com GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@example.com
git init --quiet lender
mkdir lender/.ci
cp "$REPO/.ci/portability" lender/.ci/
(cd lender && git add . && git commit --quiet -m first)
git clone --quiet --shared lender borrower
(cd borrower && git commit --quiet --allow-empty -m second)
PATH="`+bin+`:$PATH" borrower/.ci/portability `+run)
}

// TestPortability_clone checks that a run uses a copy of the repository: it changes the
// owner of the files, and hides the home directory.
func TestPortability_clone(t *testing.T) {
	t.Parallel()
	out, code := portability(t, "space", map[string]string{"make": `
echo "commits: $(git rev-list --count HEAD)"
cat .git/objects/info/alternates 2> /dev/null
find .git/objects -type f -links +1
mkdir -p .bin/test/unit`})
	require.Zero(t, code, out)
	require.Equal(t, "\n== make test, space\ncommits: 2\n", out)
}

// TestPortability_impossible checks that a run that cannot become another user is no
// failure, unless another run fails.
func TestPortability_impossible(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		runs     string
		programs map[string]string
		code     int
	}{
		"no root":     {"user", map[string]string{"id": "echo 1000"}, 77},
		"no mounts":   {"user", map[string]string{"id": "echo 0", "unshare": "exit 1"}, 77},
		"and passed":  {"calendar user space", map[string]string{"id": "echo 1000", "make": "mkdir -p .bin/test/unit"}, 77},
		"and failed":  {"user space", map[string]string{"id": "echo 1000", "make": "mkdir -p .bin/test/unit; exit 2"}, 1},
		"failed, and": {"space user", map[string]string{"id": "echo 1000", "make": "mkdir -p .bin/test/unit; exit 2"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := portability(t, tt.runs, tt.programs)
			require.Equal(t, tt.code, code, out)
		})
	}
}
