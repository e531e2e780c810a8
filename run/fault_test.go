package run_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestPath(t *testing.T) {
	t.Parallel()
	p := run.Path("").Key("tasks").Key("build").Key("depends").Index(1).Key("task")
	require.Equal(t, run.Path("tasks.build.depends[1].task"), p)
	var chain []string
	for p != "" {
		p = p.Parent()
		chain = append(chain, string(p))
	}
	require.Equal(t, []string{"tasks.build.depends[1]", "tasks.build.depends", "tasks.build", "tasks", ""}, chain)
	require.Equal(t, run.Path(`a["x y"]`), run.Path("a").Key("x y"))
	long := run.Path("a").Key(strings.Repeat("é", 1000))
	require.Less(t, len(long), 220)
	require.Equal(t, run.Path("a"), long.Parent())
}
