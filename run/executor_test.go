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

func TestResources_as_labels(t *testing.T) {
	t.Parallel()
	r := run.Resources{CPU: "1.5", Memory: "2048Mi", GPUs: 2}
	labels := map[string]string{run.LabelCPU: "1500m", run.LabelMemory: "2Gi", run.LabelGPUs: "2"}
	require.Equal(t, labels, r.Labels())
	require.Equal(t, run.Resources{CPU: "1500m", Memory: "2Gi", GPUs: 2}, run.ResourcesOf(labels))
	require.Equal(t, run.Capacity{CPU: 15e8, Memory: 2 << 30, GPUs: 2}, r.Capacity())
	require.Equal(t, run.Resources{CPU: "1500m"}.Labels(), run.Resources{CPU: "1500m", PIDs: 3, Memory: "bananas"}.Labels(), "equal amounts, equal labels")
	require.Equal(t, map[string]string{"a": "b"}, run.WithoutResources(map[string]string{"a": "b", run.LabelCPU: "1"}))
	require.True(t, run.StatesResources(run.LabelGPUs))
	require.False(t, run.StatesResources("cpu"))

	for _, tt := range []struct {
		have, required run.Resources
		want           bool
	}{
		{r, r, true},
		{r, run.Resources{CPU: "1"}, true},
		{r, run.Resources{CPU: "1501m"}, false},
		{r, run.Resources{Memory: "3G"}, false},
		{r, run.Resources{GPUs: 2, Memory: "1"}, true},
		{run.Resources{CPU: "10"}, run.Resources{GPUs: 1}, false},
		{run.Resources{}, run.Resources{CPU: "1m"}, false},
		{run.Resources{}, run.Resources{}, true},
	} {
		require.Equal(t, tt.want, run.HasLabels(tt.have.Labels(), tt.required.Labels()), "%+v", tt)
	}
	require.False(t, run.HasLabels(map[string]string{run.LabelCPU: "many"}, run.Resources{CPU: "1"}.Labels()))

	require.Equal(t, "2 CPU", run.ShownLabels(run.Resources{CPU: "2"}.Labels()))
	require.Equal(t, "label a=b, 1500m CPU, 2Gi of memory and 2 GPU", run.ShownLabels(map[string]string{
		"a": "b", run.LabelCPU: "1500m", run.LabelMemory: "2Gi", run.LabelGPUs: "2",
	}))

	whole := run.Capacity{CPU: 16e9, Memory: 64 << 30, GPUs: 2}
	for asked, want := range map[run.Resources]int{
		{}: 1, {CPU: "100m"}: 1, {CPU: "1001m"}: 2, {CPU: "16"}: 16, {Memory: "33Gi"}: 9, {GPUs: 1}: 8, {CPU: "3", Memory: "40Gi"}: 10,
	} {
		require.Equal(t, want, asked.Capacity().Slots(whole, 16), "%+v", asked)
	}
	require.Equal(t, 1, run.Capacity{CPU: 4e9}.Slots(run.Capacity{}, 16), "nothing is offered")
}

func TestTaskSpec_reserves_what_the_pool_offers(t *testing.T) {
	t.Parallel()
	plain := run.Pool{Name: "plain", Driver: run.DriverDocker, Default: true}
	offers := run.Pool{Name: "offers", Driver: run.DriverDocker, ExecutorLabels: []map[string]string{{"x": "y"}, run.Resources{CPU: "4"}.Labels()}}
	task := run.TaskSpec{Image: "busybox", Resources: run.Resources{CPU: "2", Memory: "1Gi"}}
	require.Empty(t, task.ExecutorLabels(plain))
	require.Equal(t, run.Resources{CPU: "2"}.Labels(), task.ExecutorLabels(offers), "no executor counts memory")
	require.True(t, offers.Offers())
	require.False(t, plain.Offers())
	pool := func() string {
		t.Helper()
		p, ok := run.ChoosePool(&task, []run.Pool{offers, plain})
		require.True(t, ok)
		return p.Name
	}
	require.Equal(t, "plain", pool(), "the default pool, which runs it too")
	task.Resources = run.Resources{GPUs: 1}
	require.Equal(t, run.Resources{GPUs: 1}.Labels(), task.ExecutorLabels(plain))
	require.Equal(t, "plain", pool(), "it waits there: no executor has a GPU")
	offers.ExecutorLabels = append(offers.ExecutorLabels, run.Resources{GPUs: 8}.Labels())
	require.Equal(t, "offers", pool())

	definition := run.Definition{Resources: run.Resources{CPU: "1", Memory: "1Gi", GPUs: 1}}
	run.Pool{Driver: run.DriverShell}.Define(&definition)
	require.Zero(t, definition.Resources, "the host limits nothing")
}
