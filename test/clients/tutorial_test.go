package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/test/harness"
)

// TestTutorial runs the commands of docs/tutorial.md in their order, in a
// directory with the programs and the examples, and compares what they print
// with the page. Comments of the page, which readers do not see, mark the fences
// that are treated specially:
//
//	<!-- tutorial: built -->       make test has built the programs
//	<!-- tutorial: server -->      the command keeps running, on free ports
//	<!-- tutorial: varies 216 -->  the word is another one in each run
func TestTutorial(t *testing.T) {
	t.Parallel()
	fences, err := readFences(pages.Read(t, "tutorial.md"))
	require.NoError(t, err)
	p := newTutorial(t.TempDir(), harness.TempDir(t))
	require.NoError(t, os.Symlink(filepath.Dir(harness.Drover(t)), filepath.Join(p.dir, "bin")))
	require.NoError(t, os.Symlink(pages.Path("examples"), filepath.Join(p.dir, "examples")))
	for _, f := range fences {
		switch {
		case f.language == "yaml":
			requireInExamples(t, f)
		case f.mark == "built":
			require.Equal(t, "make build", strings.TrimSpace(f.text), f.place())
		case f.mark == "server":
			p.startServer(t, f)
		default:
			require.NoError(t, p.runFence(testenv.Context(t), f))
		}
	}
	require.Greater(t, p.commands, 15)
}

// TestTutorial_reports_differences checks the test itself.
func TestTutorial_reports_differences(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ page, want string }{
		"as printed":        {"```console\n$ echo \"12:00:01 a   b 2.5s\"; echo c\n12:00:02 a b 31ms\n```\n", ""},
		"other output":      {"\n```console\n$ echo a\nb\n```\n", "docs/tutorial.md:3: \"echo a\" does not print \"b\", but:\na"},
		"printed once":      {"```console\n$ echo a\na\na\n```\n", `does not print "a"`},
		"a failure":         {"```console\n$ echo broken; false\nbroken\n```\n", "ended with exit code 1"},
		"a failure shown":   {"```console\n$ false\n\n$ echo $?\n1\n```\n", ""},
		"a varying word":    {"<!-- tutorial: varies 216 -->\n```console\n$ echo a 17 b\na 216 b\n```\n", ""},
		"an unknown run":    {"```console\n$ echo 01m83daw5awk74zzge55xs5xm2\n```\n", "no command has created the run 01m83daw5awk74zzge55xs5xm2"},
		"no run yet":        {"```console\n$ echo ID\n```\n", "no command has created a run"},
		"a fence left open": {"```console\n$ true\n", "docs/tutorial.md:1: the fence has no end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fences, err := readFences(tt.page)
			for _, f := range fences {
				err = errors.Join(err, newTutorial(t.TempDir(), harness.TempDir(t)).runFence(testenv.Context(t), f))
			}
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// fence is a block of code of the page.
type fence struct {
	line     int // of its first line of text
	language string
	mark     string // of the comment above it; "" for none
	text     string
}

func (f fence) place() string { return fmt.Sprintf("docs/tutorial.md:%d", f.line) }

// readFences returns the blocks of code of a page.
func readFences(page string) ([]fence, error) {
	var all []fence
	var open *fence
	mark, number := "", 0
	for line := range strings.Lines(page) {
		number++
		language, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open != nil:
			all, open = append(all, *open), nil
		case isFence:
			open = &fence{line: number + 1, language: language, mark: mark}
			mark = ""
		case open != nil:
			open.text += line
		case strings.HasPrefix(line, "<!-- tutorial: "):
			mark = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "<!-- tutorial: "), " -->")
		}
	}
	if open != nil {
		return nil, fmt.Errorf("docs/tutorial.md:%d: the fence has no end", open.line-1)
	}
	return all, nil
}

// requireInExamples checks that a run file of the page is part of an example.
func requireInExamples(t *testing.T, f fence) {
	t.Helper()
	files, err := filepath.Glob(pages.Path("examples/tutorial/*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), f.text) {
			return
		}
	}
	t.Errorf("%s: no file of examples/tutorial contains this text:\n%s", f.place(), f.text)
}

// tutorial is the terminal of a reader.
type tutorial struct {
	dir      string
	temp     string // for temporary files
	commands int
	status   int    // exit code of the last command
	last     string // id of the newest run
	runs     map[string]string
	names    []string // pairs of what was printed and what the page has instead
}

// home is the directory of the page.
const home = "/home/ada/drover"

func newTutorial(dir, temp string) *tutorial {
	p := &tutorial{dir: dir, temp: temp, runs: map[string]string{}}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil && resolved != dir {
		p.names = append(p.names, resolved, home)
	}
	p.names = append(p.names, dir, home)
	return p
}

// startServer starts the server of the page on free ports.
func (p *tutorial) startServer(t *testing.T, f fence) {
	t.Helper()
	line, printed, _ := strings.Cut(strings.TrimPrefix(f.text, "$ "), "\n")
	args := strings.Fields(line)
	require.Equal(t, "bin/drover", args[0], f.place())
	args = append(args[1:], "--http", "127.0.0.1:0", "--temporal", "127.0.0.1:0", "--temporal-ui", harness.FreeAddress(t))
	server := harness.StartUnder(t, []string{"sh", "-c", `cd "$0" && exec "$@"`, p.dir}, p.dir, nil, args...)
	server.AwaitReady()
	require.NotContains(t, server.Output(), "component=temporal_sdk")
	require.NoError(t, p.compare(f, line, printed, server.Output()))
}

// runFence runs the commands of a fence.
func (p *tutorial) runFence(ctx context.Context, f fence) error {
	commands := strings.Split("\n"+f.text, "\n$ ")
	for i, text := range commands[1:] {
		line, want, _ := strings.Cut(text, "\n")
		output, err := p.run(ctx, f, line)
		if err != nil {
			return err
		}
		p.learn(want, output)
		if err := p.compare(f, line, want, output); err != nil {
			return err
		}
		showsStatus := i+2 < len(commands) && strings.HasPrefix(commands[i+2], "echo $?")
		if p.status != 0 && !showsStatus {
			return fmt.Errorf("%s: %q ended with exit code %d, and printed:\n%s", f.place(), line, p.status, output)
		}
	}
	return nil
}

// runID matches the id of a run.
var runID = regexp.MustCompile(`\b[0-9a-hjkmnp-tv-z]{26}\b`)

// run runs a command with the ids of the runs of this test, and returns what it
// prints.
func (p *tutorial) run(ctx context.Context, f fence, line string) (string, error) {
	var err error
	command := runID.ReplaceAllStringFunc(line, func(id string) string {
		if p.runs[id] == "" {
			err = fmt.Errorf("%s: %q: no command has created the run %s", f.place(), line, id)
		}
		return p.runs[id]
	})
	command = regexp.MustCompile(`\bID\b`).ReplaceAllStringFunc(command, func(string) string {
		if p.last == "" {
			err = fmt.Errorf("%s: %q: no command has created a run", f.place(), line)
		}
		return p.last
	})
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf("(exit %d)\n%s", p.status, command))
	cmd.Dir = p.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "TMPDIR=" + p.temp, "DROVER_CONTEXT=" + filepath.Join(p.dir, "context.yaml"),
	}
	output, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && (!failed || ctx.Err() != nil) {
		return "", fmt.Errorf("%s: run %q: %w\n%s", f.place(), line, errors.Join(err, ctx.Err()), output)
	}
	p.commands++
	p.status = cmd.ProcessState.ExitCode()
	return string(output), nil
}

// learn notes the id of the run that a command followed, and the name of the
// executor.
func (p *tutorial) learn(want, got string) {
	id := func(text string) string {
		if m := regexp.MustCompile(`(?m)^run (\S+) finished: `).FindStringSubmatch(text); m != nil {
			return m[1]
		}
		return ""
	}
	if made := id(got); made != "" {
		p.last = made
		if onPage := id(want); onPage != "" {
			p.runs[onPage] = made
		}
	}
	executor := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d \S+ preparing on (\S+)$`)
	if onPage, here := executor.FindStringSubmatch(want), executor.FindStringSubmatch(got); onPage != nil && here != nil {
		p.names = append(p.names, here[1], onPage[1])
	}
}

// compare checks that the command printed each line of the page, in any order.
func (p *tutorial) compare(f fence, command, want, got string) error {
	names := slices.Clone(p.names)
	for _, onPage := range slices.Sorted(maps.Keys(p.runs)) {
		names = append(names, p.runs[onPage], onPage)
	}
	printed := stable(strings.NewReplacer(names...).Replace(got))
	for _, line := range stable(want) {
		pattern := regexp.QuoteMeta(line)
		if varies, ok := strings.CutPrefix(f.mark, "varies "); ok {
			for word := range strings.FieldsSeq(varies) {
				pattern = strings.ReplaceAll(pattern, regexp.QuoteMeta(word), `\S+`)
			}
		}
		at := slices.IndexFunc(printed, regexp.MustCompile("^"+pattern+"$").MatchString)
		if at < 0 {
			return fmt.Errorf("%s: %q does not print %q, but:\n%s", f.place(), command, line, got)
		}
		printed = slices.Delete(printed, at, at+1)
	}
	return nil
}

// stable returns the lines of an output, with a word of its own for everything
// that differs between two runs of the same command.
func stable(output string) []string {
	for _, r := range []struct{ pattern, word string }{
		{`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`, "TIME"},
		{`\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?`, "TIME"},
		{`\b\d\d:\d\d:\d\d\b`, "TIME"},
		{`\b(\d+m\d\ds|\d+(\.\d+)? ?m?s)\b`, "DURATION"},
		{`\b127\.0\.0\.1:\d+`, "ADDRESS"},
		{`\b\d+ B packed\b`, "SIZE packed"},
		{`\brunning on \S+ \(\S+\) as \S+`, "running on HOST"},
		{`[ \t]+`, " "},
	} {
		output = regexp.MustCompile(r.pattern).ReplaceAllString(output, r.word)
	}
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
