package kubernetes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

const gpuResource = corev1.ResourceName("nvidia.com/gpu")

// offerGPUs lets a node without GPUs offer n until the end of the test. There are no
// devices: only the scheduler and the kubelet count them.
func (b *bench) offerGPUs(t *testing.T, n int) {
	t.Helper()
	nodes, err := b.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	node := nodes.Items[0].Name
	for i := range nodes.Items {
		if _, has := nodes.Items[i].Status.Capacity[gpuResource]; has {
			testenv.HostLacks(t, "a cluster without GPUs")
		}
	}
	patch := func(operation, value string) {
		text := fmt.Sprintf(`[{"op":"%[1]s","path":"/status/capacity/nvidia.com~1gpu"%[2]s},{"op":"%[1]s","path":"/status/allocatable/nvidia.com~1gpu"%[2]s}]`, operation, value)
		_, err := b.client.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), node, types.JSONPatchType, []byte(text), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	patch("add", fmt.Sprintf(`,"value":"%d"`, n))
	t.Cleanup(func() { patch("remove", "") })
}

// TestStart_gpus runs tasks on a node that offers two GPUs: while one task has both, no
// other that asks for one starts.
func TestStart_gpus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.offerGPUs(t, 2)
	both, one := b.definition(t, "sleep 300"), b.definition(t, "echo has a GPU")
	both.Resources.GPUs, one.Resources.GPUs = 2, 1
	h := b.start(t, both)
	limits := b.pod(t, both.Key).Spec.Containers[0].Resources.Limits
	require.Equal(t, "2", limits.Name(gpuResource, "").String())

	b.driver = b.newDriver(t, func(o *kubernetes.Options) { o.PendingTimeout = 2 * time.Second })
	log := new(setupLog)
	_, err := b.driver.Start(t.Context(), executor.Task{Definition: one, Log: log.add, Launch: launchAt(1)})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	require.ErrorContains(t, err, "Insufficient nvidia.com/gpu")
	require.Contains(t, log.String(), "waiting: no node takes the pod")

	require.NoError(t, h.Remove(t.Context()))
	b.driver = b.newDriver(t, nil)
	require.Equal(t, "has a GPU\n", follow(t, b.start(t, one), 1).output)
}
