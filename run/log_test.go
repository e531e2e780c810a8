package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// Gateways before those lines read no output from a task_end frame, so Parts does not
// count it.
func TestOutlineOf_output_of_the_end(t *testing.T) {
	t.Parallel()
	o := run.OutlineOf([]run.Frame{
		{Kind: run.FrameOutput, Step: run.SetupStep, Stream: run.StreamSystem, Data: []byte("pulled\n")},
		{Kind: run.FrameTaskEnd, Step: run.SetupStep, Stream: run.StreamSystem, Data: []byte("service db had ended\n")},
	})
	first := run.LogPart{Step: run.SetupStep, Stream: run.StreamSystem, Bytes: 7, Lines: 1}
	end := run.LogPart{Step: run.SetupStep, Stream: run.StreamSystem, Bytes: 21, Lines: 1}
	require.Equal(t, []run.LogPart{first}, o.Parts)
	require.Equal(t, []run.LogPart{first, end}, o.AllParts())
	require.EqualValues(t, 28, o.Bytes())
	o = run.OutlineOf([]run.Frame{{Kind: run.FrameTaskEnd}})
	require.Empty(t, o.AllParts())
}
