package spec_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
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
func TestValidateRun_ends_when_the_list_is_full(t *testing.T) {
	t.Parallel()
	for _, faults := range []int{0, run.MaxFaults - 1, run.MaxFaults, run.MaxFaults + 1, 10 * run.MaxFaults} {
		got := spec.ValidateRun(cyclicSpec(faults))
		require.LessOrEqual(t, len(got), run.MaxFaults+1)
		if faults > run.MaxFaults {
			require.Equal(t, run.FaultTooMany, got[run.MaxFaults].Code)
		}
	}
}

func TestValidateRunContext(t *testing.T) {
	t.Parallel()
	faults, err := spec.ValidateRunContext(t.Context(), valid())
	require.NoError(t, err)
	require.Empty(t, faults)

	cause := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	faults, err = spec.ValidateRunContext(ctx, valid())
	require.ErrorIs(t, err, cause)
	require.Empty(t, faults)
}
