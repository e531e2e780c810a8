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

// TestFlakes_old leaves out what was flaky more than 90 days ago.
func TestFlakes_old(t *testing.T) {
	t.Parallel()
	out, code := runScript(t, t.TempDir(), flakyStages("TestA", "")+`
find "$stamps/flaky" -name '*.log' -exec touch -d '91 days ago' {} +
"$REPO/.ci/flakes"`)
	require.Zero(t, code, out)
	require.Contains(t, out, "no test was flaky")
}

// writePrograms writes scripts of bash that replace programs, and returns their directory.
func writePrograms(t *testing.T, programs map[string]string) string {
	t.Helper()
	bin := t.TempDir()
	for name, script := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+script), 0o700))
	}
	return bin
}

// repositoryOf begins a script with a repository that has some scripts of this one, and
// others without content. It unsets what the gate that runs
// this test may have set.
const repositoryOf = `
unset DROVER_GATE_LOG TESTFLAGS DROVER_REQUIRE CI CGO_ENABLED
export TMPDIR=$PWD GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@example.com GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@example.com
git init --quiet repo
cd repo
mkdir .ci tools
cp "$REPO"/.ci/{burn-in,run,stages,touched,verify} .ci/
cp "$REPO/tools/test.sh" tools/
for name in packages dockerd; do echo '#!/bin/bash' > .ci/$name; chmod +x .ci/$name; done
commit() { git add . && git commit --quiet --allow-empty -m change; }
`

// TestStage_leftover checks that no process of a stage is left.
func TestStage_leftover(t *testing.T) {
	t.Parallel()
	out, code := runScript(t, t.TempDir(), `
mkfifo left
cat left & reader=$!
stage "leaves a process" 1 bash -c 'sleep infinity > left & echo started > left'
wait $reader # until nothing can write`)
	require.Zero(t, code, out)
	require.Contains(t, out, "started\n")
}

// TestRun_stamp checks which gates count as green for later ones.
func TestRun_stamp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, then string // before and after the commits
		code        int
		stamp       bool
	}{
		"green":               {stamp: true},
		"a failure":           {first: "echo 'exit 3' >> .ci/dockerd", code: 1},
		"a skipped stage":     {first: "echo 'exit 77' >> .ci/dockerd"},
		"some tests":          {then: "export TESTFLAGS=-run=TestA"},
		"nothing is required": {then: "export DROVER_REQUIRE="},
		"a changed file":      {then: "echo '# changed' >> .ci/dockerd"},
		"a new file":          {then: "touch new.go"},
		"a hidden new file":   {then: "touch new.go; git config status.showUntrackedFiles no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := t.TempDir()
			bin := writePrograms(t, map[string]string{"make": ""})
			out, code := runScript(t, cache, repositoryOf+"printf '#!/bin/bash\\n' > .ci/burn-in\n"+tt.first+"\ncommit; commit\n"+tt.then+`
PATH="`+bin+`:$PATH" .ci/run`)
			require.Equal(t, tt.code, code, out)
			stamps, err := filepath.Glob(filepath.Join(cache, "drover/gate/*"))
			require.NoError(t, err)
			require.Equal(t, tt.stamp, len(stamps) == 1, out)
		})
	}
}

// TestTouched_moved checks that the package that a file left has changed.
func TestTouched_moved(t *testing.T) {
	t.Parallel()
	out, code := runScript(t, t.TempDir(), repositoryOf+`
mkdir -p executor/docker
seq 100 > executor/docker/a.go
commit
git mv executor/docker/a.go a.go
commit
.ci/touched`)
	require.Zero(t, code, out)
	require.Equal(t, "docker\n", out)
}

// TestCheckClean checks that generated files are those of the commit.
func TestCheckClean(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		generate string
		names    string // the file at fault
	}{
		"the same":            {"echo generated > gateway/a.gen.go", ""},
		"changed":             {"echo changed > gateway/a.gen.go", "gateway/a.gen.go"},
		"removed":             {"rm gateway/a.gen.go", "gateway/a.gen.go"},
		"new":                 {"touch fleeting/b.gen.go", "fleeting/b.gen.go"},
		"a new directory":     {"mkdir api/v2; touch api/v2/b.gen.go", "api/v2/b.gen.go"},
		"new, of the web UI":  {"touch web/src/lib/b.json", "web/src/lib/b.json"},
		"not a generated one": {"touch notes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := writePrograms(t, map[string]string{"go": `[ "$1" != generate ] || { ` + tt.generate + `; }`})
			out, code := runScript(t, t.TempDir(), repositoryOf+`
unset MAKEFLAGS MAKELEVEL GO
cp "$REPO/Makefile" .
mkdir -p api gateway fleeting web/src/lib
touch api/api.go fleeting/fleeting.go go.mod go.sum web/src/lib/operations.json
echo generated > gateway/a.gen.go
commit
PATH="`+bin+`:$PATH" make check-clean`)
			require.Equal(t, tt.names != "", code != 0, out)
			require.Contains(t, out, tt.names)
		})
	}
}

// TestBurnIn counts the tests that ran: one whose subtests were all skipped did not.
func TestBurnIn(t *testing.T) {
	t.Parallel()
	const long, host = "a long test: run make soak", "this host lacks "
	source, err := os.ReadFile("../testenv.go")
	require.NoError(t, err)
	for _, message := range []string{long, host} {
		require.Contains(t, string(source), message, "which .ci/burn-in looks for")
	}
	const (
		runs  = `1 changed tests passed \d+ times each` // as many as fit in its time
		fails = "all changed tests were skipped"
		left  = "only make soak or another host runs the changed tests:"
	)
	say := func(lines ...string) string {
		return "printf '%s (0.00s)\\n' '" + strings.Join(lines, "' '") + "'"
	}
	why := func(name, message string) string { return "=== RUN   " + name + "\n    a_test.go:1: " + message }
	for name, tt := range map[string]struct {
		calls, test string
		code        int
		says        string
	}{
		"passes":       {"a", say("--- PASS: TestA"), 0, runs},
		"fails":        {"a", say("--- FAIL: TestA") + "; exit 1", 1, "--- FAIL: TestA"},
		"fails first":  {"a b", "[[ $* != *./a* ]] || { echo 'a failed'; exit 1; }; " + say("--- PASS: TestA"), 1, "a failed"},
		"fails later":  {"a", "[[ $* == *' -count=1 '* ]] || exit 1; " + say("--- PASS: TestA"), 1, ""},
		"skips some":   {"a", say("--- PASS: TestA", "--- SKIP: TestB"), 0, runs + "\n--- SKIP: TestB"},
		"skips all":    {"a", say(why("TestA", "no"), "--- SKIP: TestA"), 1, fails},
		"is long":      {"a", say(why("TestA", long), "--- SKIP: TestA"), 0, left + "\n--- SKIP: TestA"},
		"one is long":  {"a b", "[[ $* != *./a* ]] || " + say(why("TestA", long)) + "; " + say(why("TestA", "no"), "--- SKIP: TestA"), 1, fails},
		"needs a host": {"a", say(why("TestA", host+"bash"), "--- SKIP: TestA"), 0, left},
		"does not run": {"a", "echo 'ok a [no tests to run]'", 1, "none of the changed tests ran"},

		"skips a subtest":        {"a", say("--- PASS: TestA", "    --- PASS: TestA/x", "    --- SKIP: TestA/y"), 0, runs},
		"skips all subtests":     {"a", say("--- PASS: TestA", "    --- SKIP: TestA/x", "    --- SKIP: TestA/y"), 1, fails},
		"skips those of another": {"a", say("--- PASS: TestA", "    --- SKIP: TestA/x", "--- PASS: TestB"), 0, runs + "\n--- SKIP: TestA"},
		"skips those below":      {"a", say("--- PASS: TestA", "    --- PASS: TestA/x", "        --- SKIP: TestA/x/y"), 1, fails},
		"passes one below": {
			"a", say("--- PASS: TestA", "    --- PASS: TestA/x", "        --- SKIP: TestA/x/y", "        --- PASS: TestA/x/z"), 0, runs,
		},
		"a subtest needs a host": {"a", say(why("TestA/x", host+"bash"), "--- PASS: TestA", "    --- SKIP: TestA/x"), 0, left},
		"only one needs a host": {
			"a", say(why("TestA/x", host+"bash"), why("TestA/y", "no"), "--- PASS: TestA", "    --- SKIP: TestA/x", "    --- SKIP: TestA/y"), 1, fails,
		},
		"one needs a host, one is long": {
			"a", say(why("TestA/x", host+"bash"), why("TestB", long), "--- PASS: TestA", "    --- SKIP: TestA/x", "--- SKIP: TestB"), 0, left,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := writePrograms(t, map[string]string{"go": `
[ "$CGO_ENABLED" = 0 ] || { echo "CGO_ENABLED=$CGO_ENABLED"; exit 1; }
if [ "$1" = test ]; then
` + tt.test + `
else
	for name in ` + tt.calls + `; do printf '.\t5\t^(TestA)$\t./%s\n' $name; done
fi`})
			out, code := runScript(t, t.TempDir(), repositoryOf+"commit; commit\nPATH="+bin+":$PATH .ci/burn-in")
			require.Equal(t, tt.code, code, out)
			require.Regexp(t, tt.says, out)
		})
	}
}

// TestTest_calls checks that a stage fails if it cannot list all of its calls.
func TestTest_calls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		calls string
		code  int
	}{
		"all":  {`printf '.\t5\t-\t./a\n'`, 0},
		"some": {`printf '.\t5\t-\t./a\n'; exit 1`, 1},
		"none": {"", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := writePrograms(t, map[string]string{"gotestsum": `
while [ "$1" != --jsonfile ]; do shift; done
echo > "$2"`, "go": `
case $* in
*gotestsum) echo gotestsum ;;
*"stages calls unit") ` + tt.calls + ` ;;
esac`})
			out, code := runScript(t, t.TempDir(), repositoryOf+"export GO=go PATH="+bin+":$PATH\ntools/test.sh unit")
			require.Equal(t, tt.code, code, out)
		})
	}
}

// portability runs .ci/portability in a repository that borrows objects of another one,
// with scripts of bash in place of programs.
func portability(t *testing.T, run string, programs map[string]string) (output string, code int) {
	t.Helper()
	bin := writePrograms(t, programs)
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
