package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
)

// tally is a graph whose steps each append a line to a file of their own, so that
// the test detects steps that ran twice or never.
type tally struct {
	dir   string
	tasks int
	steps int
	pause string // the argument of each step's sleep
}

// spec returns the graph: a task prepare, the parallel tasks, a task join.
func (g tally) spec(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\ngroup: /test/tally\nenvironment: {DIR: %q}\ntasks:\n", name, g.dir)
	b.WriteString("  prepare:\n    steps: [{run: 'echo ran >> $DIR/prepare.0; echo line prepare'}]\n")
	numbers := make([]string, g.tasks)
	for i := range numbers {
		numbers[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	fmt.Fprintf(&b, "  work:\n    depends: [prepare]\n    matrix: {N: [%s]}\n    steps:\n", strings.Join(numbers, ", "))
	for s := range g.steps {
		fmt.Fprintf(&b, "      - run: 'echo ran >> $DIR/work-$N.%d; echo line %d; sleep %s; echo end %d'\n", s, s, g.pause, s)
	}
	b.WriteString("  join:\n    depends: [work]\n    steps: [{run: 'echo ran >> $DIR/join.0; echo line join'}]\n")
	return b.String()
}

// check fails the test unless every step ran exactly once and every log is
// complete.
func (g tally) check(t *testing.T, r api.Run, awaitLogs func(task, want string)) {
	t.Helper()
	require.Equal(t, api.Phase("finished"), r.Phase)
	require.Equal(t, api.Result("success"), r.Result, "%+v", r)
	want := map[string]bool{"prepare.0": true, "join.0": true}
	for i := range g.tasks {
		for s := range g.steps {
			want[fmt.Sprintf("work-%d.%d", i, s)] = true
		}
	}
	files, err := os.ReadDir(g.dir)
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, f := range files {
		require.True(t, want[f.Name()], f.Name())
		data, err := os.ReadFile(filepath.Join(g.dir, f.Name()))
		require.NoError(t, err)
		require.Equal(t, "ran\n", string(data), "%s must have run exactly once", f.Name())
	}
	for i := range g.tasks {
		var whole strings.Builder
		for s := range g.steps {
			fmt.Fprintf(&whole, "line %d\nend %d\n", s, s)
		}
		task := fmt.Sprintf("work[N=%d]", i)
		awaitLogs(task, whole.String())
	}
}
