package spec_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func TestValidatePool(t *testing.T) {
	t.Parallel()
	seconds := int64(3)
	many := map[string]string{}
	for i := range run.MaxPoolLabels + 1 {
		many[strings.Repeat("x", i+1)] = ""
	}
	for name, c := range map[string]struct {
		pool run.Pool
		want []string
	}{
		"least": {run.Pool{Name: "a", Driver: "shell"}, nil},
		"all": {run.Pool{
			Name: "a", Driver: "kubernetes", OS: "linux", Arch: "amd64", Labels: map[string]string{"a/b": "c"}, Privileged: true, Shared: true, Default: true,
			Flavor: run.Flavor{Name: "large", Memory: "8Gi"}, MaxRunning: 5,
			Kubernetes: &run.KubernetesPool{
				NodeSelector: map[string]string{"disk": "ssd"}, ServiceAccount: "tasks", RuntimeClass: "gvisor", PriorityClass: "low",
				ImagePullSecrets: []string{"a"}, Labels: map[string]string{"x": "y"}, Affinity: json.RawMessage(` {"nodeAffinity": {}}`),
				PodTemplate: json.RawMessage(`{"spec": {}}`),
				Tolerations: []run.Toleration{{Key: "k", Value: "v", Effect: "NoExecute", Seconds: &seconds}, {Operator: "Exists"}},
			},
		}, nil},
		"nothing": {run.Pool{}, []string{"name bad_format", "driver required"}},
		"bad words": {
			run.Pool{Name: "A b", Driver: "a b", OS: "li nux", Arch: "Ⅷ"},
			[]string{"name bad_format", "driver bad_format", "os bad_format", "arch bad_format"},
		},
		"labels":      {run.Pool{Name: "a", Driver: "shell", Labels: map[string]string{"": "x"}}, []string{`labels[""] over_limit`}},
		"many labels": {run.Pool{Name: "a", Driver: "shell", Labels: many}, []string{"labels over_limit"}},
		"flavor": {
			run.Pool{Name: "a", Driver: "shell", Flavor: run.Flavor{Name: "a b", Memory: "much", Weight: 0.5}},
			[]string{"flavor.name bad_format", "flavor.memory bad_format", "flavor.weight not_supported"},
		},
		"shared without images":  {run.Pool{Name: "a", Driver: "shell", Shared: true}, []string{"shared contradiction"}},
		"pods of another driver": {run.Pool{Name: "a", Driver: "docker", Kubernetes: &run.KubernetesPool{}}, []string{"kubernetes contradiction"}},
		"pods": {
			run.Pool{Name: "a", Driver: "kubernetes", Kubernetes: &run.KubernetesPool{
				ServiceAccount: "A", ImagePullSecrets: []string{""}, Affinity: json.RawMessage(`[]`), PodTemplate: json.RawMessage(`null`),
				Tolerations: []run.Toleration{{}, {Key: "a", Operator: "Maybe"}, {Key: "a", Effect: "Perhaps", Seconds: &seconds}},
			}},
			[]string{
				"kubernetes.service_account bad_format", "kubernetes.image_pull_secrets[0] bad_format", "kubernetes.tolerations[0].key required",
				"kubernetes.tolerations[1].operator", "kubernetes.tolerations[2].effect", "kubernetes.tolerations[2].seconds contradiction",
				"kubernetes.affinity bad_format", "kubernetes.pod_template bad_format",
			},
		},
		"limit": {run.Pool{Name: "a", Driver: "shell", MaxRunning: -1}, []string{"max_running out_of_range"}},
		"large": {
			run.Pool{Name: "a", Driver: "kubernetes", Kubernetes: &run.KubernetesPool{PodTemplate: json.RawMessage(`{"a":"` + strings.Repeat("x", run.MaxPoolBytes) + `"}`)}},
			[]string{"kubernetes over_limit"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := found(spec.ValidatePool(c.pool))
			require.Len(t, got, len(c.want), "%v", got)
			for i, want := range c.want {
				require.Contains(t, got[i], want)
			}
		})
	}
}

func TestCheckPool(t *testing.T) {
	t.Parallel()
	shell := run.Pool{Name: "shell", Driver: "shell"}
	docker := run.Pool{Name: "docker", Driver: "docker"}
	require.Empty(t, spec.CheckPool("a", &run.TaskSpec{}, shell))
	require.Empty(t, spec.CheckPool("a", &run.TaskSpec{Image: "x"}, docker))
	require.Equal(t, []string{"tasks.a.image required"}, found(spec.CheckPool("a", &run.TaskSpec{}, docker)))
	require.Equal(t, []string{"tasks.a.privileged pool_mismatch"}, found(spec.CheckPool("a", &run.TaskSpec{Image: "x", Privileged: true}, docker)))
	checksOut := &run.TaskSpec{Image: "x", WorkingDir: "src", Steps: []run.Step{{Checkout: &run.Checkout{Repository: "https://h/r"}}}}
	require.Equal(t, []string{"tasks.a.working_dir pool_mismatch"}, found(spec.CheckPool("a", checksOut, docker)))
	checksOut.WorkingDir = "/src"
	require.Empty(t, spec.CheckPool("a", checksOut, docker))
	all := &run.TaskSpec{
		Image: "x", PullPolicy: run.PullAlways, Platform: "linux/amd64", Services: make([]run.ServiceSpec, 1), User: "1",
		Resources: run.Resources{CPU: "1"}, Volumes: make([]run.Volume, 1), Privileged: true,
	}
	want := []string{
		"tasks.a.privileged pool_mismatch", "tasks.a.image pool_mismatch", "tasks.a.pull_policy pool_mismatch", "tasks.a.platform pool_mismatch",
		"tasks.a.services pool_mismatch", "tasks.a.user pool_mismatch", "tasks.a.resources pool_mismatch", "tasks.a.volumes pool_mismatch",
	}
	require.Equal(t, want, found(spec.CheckPool("a", all, shell)))
	shell.Privileged = true
	require.Len(t, spec.CheckPool("a", all, shell), len(want))
}

// What no executor of a pool reports is refused.
func TestCheckPool_features(t *testing.T) {
	t.Parallel()
	task := &run.TaskSpec{
		Image: "x", User: "1", Privileged: true, Resources: run.Resources{PIDs: 1}, ExtraHosts: map[string]string{"a": "::1"},
		Services: []run.ServiceSpec{{Image: "x"}, {Image: "x", Privileged: true}}, Volumes: []run.Volume{{Path: "/x", Tmpfs: &run.Tmpfs{}}},
		Steps: []run.Step{{Run: "x", Image: "x"}, {Checkout: &run.Checkout{Repository: "https://h/r"}}, {Checkout: &run.Checkout{Repository: "https://h/r"}, Image: "x"}},
	}
	pool := run.Pool{Name: "p", Driver: run.DriverDocker, Privileged: true, Features: []run.Feature{}}
	faults := spec.CheckPool("a", task, pool)
	require.ElementsMatch(t, []string{
		"tasks.a.privileged pool_mismatch", "tasks.a.services pool_mismatch", "tasks.a.services[1].privileged pool_mismatch", "tasks.a.user pool_mismatch", "tasks.a.volumes pool_mismatch",
		"tasks.a.extra_hosts pool_mismatch", "tasks.a.resources.pids pool_mismatch", "tasks.a.steps[0].image pool_mismatch",
		"tasks.a.steps[1].checkout pool_mismatch", "tasks.a.steps[2].image pool_mismatch",
	}, found(faults))
	require.True(t, slices.ContainsFunc(faults, func(f run.Fault) bool { return strings.Contains(f.Detail, "executor.checkout_image") }))
	pool.Features = []run.Feature{
		run.FeaturePrivileged, run.FeatureServices, run.FeatureUsers, run.FeatureTmpfs, run.FeatureExtraHosts, run.FeatureProcessLimits,
		run.FeatureStepImages, run.FeatureCheckouts,
	}
	require.Empty(t, spec.CheckPool("a", task, pool))
	pool.Features = nil // not known
	require.Empty(t, spec.CheckPool("a", task, pool))

	shell := run.Pool{Name: "p", Driver: run.DriverShell, Features: []run.Feature{}}
	faults = spec.CheckPool("a", &run.TaskSpec{Steps: []run.Step{{Checkout: &run.Checkout{Repository: "https://h/r"}}}}, shell)
	require.Equal(t, []string{"tasks.a.steps[0].checkout pool_mismatch"}, found(faults))
	require.Contains(t, faults[0].Detail, "install git on its hosts")
}
