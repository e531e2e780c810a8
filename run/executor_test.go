package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	both := map[string]string{"zone": "b", "gpu": "a100"}
	require.Equal(t, "{\"gpu\":\"a100\",\"zone\":\"b\"}", run.LabelsText(both)) //nolint:testifylint // the bytes matter, they are hashed
	// The queues of tasks have this digest in their names: it must never change.
	require.Equal(t, "b29d250e55d44598b8861a6821ae4591", run.LabelsID(run.LabelsText(both)))
	require.Empty(t, run.LabelsID(run.LabelsText(nil)))
	require.True(t, run.HasLabels(both, map[string]string{"gpu": "a100"}))
	require.False(t, run.HasLabels(both, map[string]string{"gpu": "l4"}))
	require.False(t, run.HasLabels(nil, both))
	require.True(t, run.HasLabels(nil, nil))
	require.Equal(t, "labels gpu=a100 and zone=b", run.ShownLabels(both))
	require.Equal(t, "label a=", run.ShownLabels(map[string]string{"a": ""}))
	require.False(t, run.Labelled(map[string]string{run.LabelFleet: "a", run.LabelInstance: "b"}))
	require.True(t, run.Labelled(both))
	pool := run.Pool{Labels: map[string]string{"gpu": "l4", "rack": "7"}}
	require.Equal(t, map[string]string{"gpu": "a100", "zone": "b", "rack": "7"}, pool.WithLabels(both))
	require.Equal(t, map[string]string{"gpu": "l4", "rack": "7"}, pool.Labels)
}

func TestDividePermits(t *testing.T) {
	t.Parallel()
	among := []run.Permitted{{Executor: "a", Room: 1}, {Executor: "b", Room: 3}, {Executor: "c", Room: 3}}
	require.Empty(t, run.DividePermits(3, 0, nil))
	require.Equal(t, map[string]int{"a": 1, "b": 2, "c": 1}, run.DividePermits(4, 0, among))
	require.Equal(t, map[string]int{"c": 1}, run.DividePermits(1, 5, among), "the turn")
	require.Equal(t, map[string]int{"a": 1, "b": 3, "c": 3}, run.DividePermits(50, 1, among), "no more than there is room")
}
