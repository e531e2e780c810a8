package run_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/cputime"
	"github.com/drover-run/drover/run"
)

// cyclicSpec returns a specification whose tasks depend on each other and refer to
// outputs, with the given number of invalid change groups.
func cyclicSpec(faults int) *run.Spec {
	s := valid()
	s.ChangeGroups = make([]string, faults)
	s.Tasks = map[string]*run.TaskSpec{
		"a": {Steps: []run.Step{{Run: "x"}}, Depends: []run.Depend{{Task: "b"}}, Environment: map[string]string{"A": `{{ output "b" "k" }}`}},
		"b": {Steps: []run.Step{{Run: "x"}}, Depends: []run.Depend{{Task: "a"}}},
	}
	return s
}

// A full list of faults does not show whether the dependencies are sound.
func TestValidate_ends_when_the_list_is_full(t *testing.T) {
	t.Parallel()
	for _, faults := range []int{0, run.MaxFaults - 1, run.MaxFaults, run.MaxFaults + 1, 10 * run.MaxFaults} {
		got := run.Validate(cyclicSpec(faults))
		require.LessOrEqual(t, len(got), run.MaxFaults+1)
		if faults > run.MaxFaults {
			require.Equal(t, run.FaultTooMany, got[run.MaxFaults].Code)
		}
	}
}

func TestValidateContext(t *testing.T) {
	t.Parallel()
	faults, err := run.ValidateContext(t.Context(), valid())
	require.NoError(t, err)
	require.Empty(t, faults)

	cause := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	faults, err = run.ValidateContext(ctx, valid())
	require.ErrorIs(t, err, cause)
	require.Empty(t, faults)
}

// A restart may name as many tasks as a request can hold.
func TestKept_cost(t *testing.T) {
	t.Parallel()
	status := make([]run.Status, run.MaxTasks)
	nodes := make([]run.Node, run.MaxTasks)
	for i := range nodes {
		status[i], nodes[i] = run.StatusSuccess, run.Node{Name: "t" + strconv.Itoa(i), First: i, Width: 1}
	}
	named := make([]string, 500_000)
	for i := range named {
		named[i] = "x" + strconv.Itoa(i)
	}
	spent := cputime.Of(t, func() {
		_, err := run.Kept(nodes, status, func(task int) string { return nodes[task].Name }, "", named)
		var refused *run.Error
		require.ErrorAs(t, err, &refused)
		require.Len(t, refused.Faults, run.MaxFaults+1)
	})
	require.Less(t, spent, 2*time.Second)
}
