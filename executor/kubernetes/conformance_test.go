package kubernetes_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/executortest"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/run"
)

// conformanceConfig is the configuration from which a process of the suite
// creates a driver.
type conformanceConfig struct{ Kubeconfig, Namespace, ExecutorID, HelperImage string }

func openConformance(text string) (executor.Driver, error) {
	var config conformanceConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return nil, err
	}
	cluster, _, err := kubernetes.Connect(kubernetes.Location{Kubeconfig: config.Kubeconfig})
	if err != nil {
		return nil, err
	}
	return kubernetes.New(kubernetes.Options{
		Config: cluster, Namespace: config.Namespace, ExecutorID: config.ExecutorID,
		HelperImage: config.HelperImage, HelperPullPolicy: run.PullNever,
	})
}

func TestDriver_conformance(t *testing.T) {
	t.Parallel()
	shared := newBench(t) // one namespace for all cases, one executor for each
	executortest.Run(t, openConformance, func(t *testing.T) executortest.Harness {
		t.Helper()
		b := *shared
		b.id = "test-" + newID(t)
		config, err := json.Marshal(conformanceConfig{b.cluster.Kubeconfig, b.namespace, b.id, b.cluster.DroverImage})
		require.NoError(t, err)
		return executortest.Harness{
			Config: string(config),
			Image:  b.cluster.Image, GitImage: b.cluster.GitImage,
			User:   executortest.NamedUser{Name: "tester", ID: "1000", Groups: "1000 2000"},
			Vanish: b.vanish, VanishHelper: b.vanishHelper, KillsGroups: true,
			Describe: func(t testing.TB, key run.Key) string {
				t.Helper()
				reported, err := json.Marshal(b.pod(t, key))
				require.NoError(t, err)
				return string(reported)
			},
			Leftovers: func(t testing.TB) []string {
				t.Helper()
				return b.leftOf(t, kubernetes.LabelExecutor+"="+b.id)
			},
		}
	})
}
