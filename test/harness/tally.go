package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
)

// Tally is a graph whose steps each append a line to a file of their own, so that
// the test detects steps that ran twice or never.
type Tally struct {
	Dir   string
	Tasks int
	Steps int
	Pause string // the argument of each step's sleep
}

// Spec returns the graph: a task prepare, the parallel tasks, a task join.
func (g Tally) Spec(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\ngroup: /test/tally\nenvironment: {DIR: %q}\ntasks:\n", name, g.Dir)
	b.WriteString("  prepare:\n    steps: [{run: 'echo ran >> $DIR/prepare.0; echo line prepare'}]\n")
	numbers := make([]string, g.Tasks)
	for i := range numbers {
		numbers[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	fmt.Fprintf(&b, "  work:\n    depends: [prepare]\n    matrix: {N: [%s]}\n    steps:\n", strings.Join(numbers, ", "))
	for s := range g.Steps {
		fmt.Fprintf(&b, "      - run: 'echo ran >> $DIR/work-$N.%d; echo line %d; sleep %s; echo end %d'\n", s, s, g.Pause, s)
	}
	b.WriteString("  join:\n    depends: [work]\n    steps: [{run: 'echo ran >> $DIR/join.0; echo line join'}]\n")
	return b.String()
}

// Check fails the test unless every step ran exactly once and every log is
// complete.
func (g Tally) Check(t *testing.T, r api.Run, awaitLogs func(task, want string)) {
	t.Helper()
	require.Equal(t, api.Phase("finished"), r.Phase)
	require.Equal(t, api.Result("success"), r.Result, "%+v", r)
	want := map[string]bool{"prepare.0": true, "join.0": true}
	for i := range g.Tasks {
		for s := range g.Steps {
			want[fmt.Sprintf("work-%d.%d", i, s)] = true
		}
	}
	files, err := os.ReadDir(g.Dir)
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, f := range files {
		require.True(t, want[f.Name()], f.Name())
		data, err := os.ReadFile(filepath.Join(g.Dir, f.Name()))
		require.NoError(t, err)
		require.Equal(t, "ran\n", string(data), "%s must have run exactly once", f.Name())
	}
	for i := range g.Tasks {
		var whole strings.Builder
		for s := range g.Steps {
			fmt.Fprintf(&whole, "line %d\nend %d\n", s, s)
		}
		task := fmt.Sprintf("work[N=%d]", i)
		awaitLogs(task, whole.String())
	}
}

// AwaitBegun waits until at least the given number of steps of a tally have
// begun. The status running is not enough: a task has it before its first step
// begins, and may still be started again.
func AwaitBegun(t *testing.T, dir string, steps int) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		begun := 0
		for _, f := range files {
			if info, err := f.Info(); err == nil && info.Size() > 0 { // a step creates its file before it writes to it
				begun++
			}
		}
		return begun >= steps, fmt.Sprintf("%d steps have begun", begun)
	})
}

// Running returns the number of running tasks of a run.
func Running(r api.Run) int {
	n := 0
	for _, task := range r.Tasks {
		if task.Status == "running" {
			n++
		}
	}
	return n
}

// OutOfContact returns the number of running tasks whose executor is out of contact.
func OutOfContact(r api.Run) int {
	n := 0
	for _, task := range r.Tasks {
		if task.Status == "running" && strings.Contains(task.Reason, "out of contact since") {
			n++
		}
	}
	return n
}
