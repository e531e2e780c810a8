package spec_test

import (
	"encoding/json"
	"fmt"
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
	rewrites, registries := map[string]string{}, map[string]run.PoolRegistry{}
	for i := range run.MaxPoolImages + 1 {
		registries[fmt.Sprintf("%d.example.com", i)] = run.PoolRegistry{Username: "u", PasswordFrom: run.SecretRef{Provider: "p", Name: "n"}}
		rewrites[fmt.Sprintf("docker.io/%d", i)] = "mirror.example.com"
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
		"volumes": {
			run.Pool{Name: "a", Driver: "docker", AllowedVolumes: append(slices.Repeat([]string{"build-*"}, run.MaxPoolVolumes), "a b")},
			[]string{"allowed_volumes over_limit", "allowed_volumes[50] bad_format"},
		},
		"volumes in pods": {run.Pool{Name: "a", Driver: "kubernetes", AllowedVolumes: []string{"*"}}, []string{"allowed_volumes contradiction"}},
		"host paths": {
			run.Pool{Name: "a", Driver: "docker", AllowedHostPaths: []string{"/srv/*", "/opt/a", "/opt/a", "/srv/a/b", "/etc/*", "/mnt\x00"}},
			[]string{"allowed_host_paths[4] bad_format", "allowed_host_paths[5] bad_format", "allowed_host_paths[0] contradiction"},
		},
		"many host paths": {
			run.Pool{Name: "a", Driver: "docker", AllowedHostPaths: slices.Repeat([]string{"/srv/*"}, run.MaxPoolHostPaths+1)}, []string{"allowed_host_paths over_limit"},
		},
		"devices": {
			run.Pool{Name: "a", Driver: "docker", AllowedDevices: append(slices.Repeat([]string{"/dev/ttyUSB*"}, run.MaxPoolHostPaths), "/dev/*")},
			[]string{"allowed_devices over_limit", "allowed_devices[50] bad_format"},
		},
		"hosts of pods": {
			run.Pool{Name: "a", Driver: "kubernetes", AllowedHostPaths: []string{"/srv/a"}, AllowedDevices: []string{"/dev/kvm"}},
			[]string{"allowed_host_paths contradiction", "allowed_devices contradiction"},
		},
		"images": {
			run.Pool{Name: "a", Driver: "docker", Images: run.PoolImages{
				Default: `{{ input "i" }}`, Allowed: []string{"alpine", "a b"}, AllowedServices: slices.Repeat([]string{"**"}, run.MaxPoolImages+1), PullPolicies: []run.PullPolicy{"always", "sometimes", "", "always"},
			}},
			[]string{
				"image bad_format", "allowed_images[1] bad_format", "allowed_service_images over_limit",
				"allowed_pull_policies[1] bad_value", "allowed_pull_policies[2] required", "allowed_pull_policies[3] duplicate",
			},
		},
		"image rewrites": {
			run.Pool{Name: "a", Driver: "docker", Images: run.PoolImages{Rewrites: map[string]string{
				"docker.io": "mirror.example.com:5000/hub", "docker.io/team/app": "localhost/app", "ghcr.io": "", "quay.io/a:1": "b",
			}}},
			[]string{"image_rewrites.ghcr.io bad_format", "image_rewrites.quay.io/a:1 bad_format", "image_rewrites.quay.io/a:1 bad_format"},
		},
		"many image rewrites": {
			run.Pool{Name: "a", Driver: "docker", Images: run.PoolImages{Rewrites: rewrites}}, []string{"image_rewrites over_limit"},
		},
		"registries": {
			run.Pool{Name: "a", Driver: "docker", Images: run.PoolImages{Registries: map[string]run.PoolRegistry{
				"ghcr.io": {Username: "u", PasswordFrom: run.SecretRef{Provider: "p", Name: "n"}}, "localhost:5000": {Username: "u", PasswordFrom: run.SecretRef{Provider: "p", Name: "n"}},
				"index.docker.io": {Username: "u", PasswordFrom: run.SecretRef{Provider: "p", Name: "n"}}, "quay.io": {PasswordFrom: run.SecretRef{Name: "../n"}},
				"quay.io/a": {Username: "u", PasswordFrom: run.SecretRef{Provider: "p", Name: "n"}}, "docker.io:443": {Username: "u", PasswordFrom: run.SecretRef{Provider: "p", Name: "n"}},
				"registry-1.docker.io": {Username: "u", PasswordFrom: run.SecretRef{Provider: "p", Name: "n"}},
			}}},
			[]string{
				"registries.docker.io:443 bad_format", "registries.index.docker.io bad_format", "registries.quay.io.username required", "registries.quay.io.password_from.provider required",
				"registries.quay.io.password_from.name bad_format", "registries.quay.io/a bad_format", "registries.registry-1.docker.io bad_format",
			},
		},
		"many registries": {run.Pool{Name: "a", Driver: "docker", Images: run.PoolImages{Registries: registries}}, []string{"registries over_limit"}},
		"registries of the shell": {
			run.Pool{Name: "a", Driver: "shell", Images: run.PoolImages{Registries: map[string]run.PoolRegistry{"ghcr.io": registries["0.example.com"]}}}, []string{"registries contradiction"},
		},
		"images of the shell": {
			run.Pool{Name: "a", Driver: "shell", Images: run.PoolImages{Default: "a", Allowed: []string{"a"}, AllowedServices: []string{"a"}, PullPolicies: []run.PullPolicy{"never"}, Rewrites: map[string]string{"docker.io": "mirror.example.com"}}},
			[]string{"image contradiction", "allowed_images contradiction", "allowed_service_images contradiction", "allowed_pull_policies contradiction", "image_rewrites contradiction"},
		},
		"shared without always": {
			run.Pool{Name: "a", Driver: "docker", Shared: true, Images: run.PoolImages{PullPolicies: []run.PullPolicy{"never"}}},
			[]string{"allowed_pull_policies contradiction"},
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

// Images and pull policies that a pool does not allow are refused, with what it allows.
func TestCheckPool_images(t *testing.T) {
	t.Parallel()
	const allowed = "registry.example.com/team/*"
	task := func(change func(*run.TaskSpec)) *run.TaskSpec {
		t := &run.TaskSpec{Image: "registry.example.com/team/app:1", Steps: []run.Step{{Run: "x"}}}
		change(t)
		return t
	}
	image := func(name string) *run.TaskSpec { return task(func(t *run.TaskSpec) { t.Image = name }) }
	step := task(func(t *run.TaskSpec) { t.Steps[0].Image = "alpine" })
	checkout := task(func(t *run.TaskSpec) { t.Steps = []run.Step{{Checkout: &run.Checkout{Repository: "https://h/r"}}} })
	service := task(func(t *run.TaskSpec) { t.Services = []run.ServiceSpec{{Image: "postgres:16"}} })
	policy := task(func(t *run.TaskSpec) { t.PullPolicy = run.PullNever })
	for name, tt := range map[string]struct {
		images run.PoolImages
		task   *run.TaskSpec
		want   []string
	}{
		"all":                          {run.PoolImages{}, image("alpine"), nil},
		"allowed":                      {run.PoolImages{Allowed: []string{allowed}}, task(func(*run.TaskSpec) {}), nil},
		"another registry":             {run.PoolImages{Allowed: []string{allowed}}, image("alpine"), []string{"tasks.a.image pool_mismatch"}},
		"a port":                       {run.PoolImages{Allowed: []string{allowed}}, image("registry.example.com:5000/team/app"), []string{"tasks.a.image pool_mismatch"}},
		"upper case":                   {run.PoolImages{Allowed: []string{"alpine"}}, image("LIBRARY/alpine"), []string{"tasks.a.image pool_mismatch"}},
		"the other name of Docker Hub": {run.PoolImages{Allowed: []string{"alpine"}}, image("index.docker.io/team/alpine"), []string{"tasks.a.image pool_mismatch"}},
		"a tag and a digest": {
			run.PoolImages{Allowed: []string{"alpine:3"}}, image("alpine:3@sha256:" + strings.Repeat("0", 64)), []string{"tasks.a.image pool_mismatch"},
		},
		"the default":                    {run.PoolImages{Default: "alpine:3", Allowed: []string{allowed}}, image("docker.io/library/alpine:3"), nil},
		"another tag":                    {run.PoolImages{Default: "alpine:3", Allowed: []string{allowed}}, image("alpine"), []string{"tasks.a.image pool_mismatch"}},
		"a step":                         {run.PoolImages{Allowed: []string{allowed}}, step, []string{"tasks.a.steps[0].image pool_mismatch"}},
		"a step, a list for services":    {run.PoolImages{Allowed: []string{allowed}, AllowedServices: []string{"**"}}, step, []string{"tasks.a.steps[0].image pool_mismatch"}},
		"the executor's image with git":  {run.PoolImages{Allowed: []string{allowed}}, checkout, nil},
		"a service":                      {run.PoolImages{Allowed: []string{allowed}}, service, []string{"tasks.a.services[0].image pool_mismatch"}},
		"an allowed service":             {run.PoolImages{Allowed: []string{allowed}, AllowedServices: []string{"postgres"}}, service, nil},
		"no service":                     {run.PoolImages{AllowedServices: []string{allowed}}, service, []string{"tasks.a.services[0].image pool_mismatch"}},
		"services only":                  {run.PoolImages{AllowedServices: []string{allowed}}, image("alpine"), nil},
		"pull policy":                    {run.PoolImages{PullPolicies: []run.PullPolicy{run.PullAlways}}, policy, []string{"tasks.a.pull_policy pool_mismatch"}},
		"allowed pull policy":            {run.PoolImages{PullPolicies: []run.PullPolicy{run.PullAlways, run.PullNever}}, policy, nil},
		"none, and the pool has its own": {run.PoolImages{PullPolicies: []run.PullPolicy{run.PullAlways}}, image("alpine"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, found(spec.CheckPool("a", tt.task, run.Pool{Name: "p", Driver: run.DriverDocker, Images: tt.images})))
		})
	}
	many := slices.Repeat([]string{"other"}, 11)
	faults := spec.CheckPool("a", image("alpine"), run.Pool{Name: "p", Driver: run.DriverDocker, Images: run.PoolImages{Allowed: many}})
	require.Equal(t, `pool p does not allow the image "docker.io/library/alpine:latest"; its allowed_images are `+strings.Repeat("other, ", 9)+"other and 1 more", faults[0].Detail)
}

// A pool allows persistent volumes by name.
func TestCheckPool_volumes(t *testing.T) {
	t.Parallel()
	task := &run.TaskSpec{Image: "x", Volumes: []run.Volume{{Path: "/a", Name: "go-build"}, {Path: "/b", Name: "maven"}, {Path: "/c", Tmpfs: &run.Tmpfs{}}}}
	for name, tt := range map[string]struct {
		pool  run.Pool
		want  []string
		texts []string
	}{
		"none":       {run.Pool{Driver: "docker"}, []string{"tasks.a.volumes[0].name pool_mismatch", "tasks.a.volumes[1].name pool_mismatch"}, []string{"it has no allowed_volumes"}},
		"some":       {run.Pool{Driver: "docker", AllowedVolumes: []string{"cache", "go-*"}}, []string{"tasks.a.volumes[1].name pool_mismatch"}, []string{"maven", "its allowed_volumes are cache, go-*"}},
		"all":        {run.Pool{Driver: "docker", AllowedVolumes: []string{"*"}}, nil, nil},
		"a feature":  {run.Pool{Driver: "docker", AllowedVolumes: []string{"*"}, Features: []run.Feature{run.FeatureTmpfs}}, []string{"tasks.a.volumes[0].name pool_mismatch", "tasks.a.volumes[1].name pool_mismatch"}, []string{"volumes"}},
		"pods":       {run.Pool{Driver: "kubernetes"}, []string{"tasks.a.volumes[0].name pool_mismatch", "tasks.a.volumes[1].name pool_mismatch"}, []string{"pod_template"}},
		"the driver": {run.Pool{Driver: "kubernetes", Features: []run.Feature{run.FeatureTmpfs}}, []string{"tasks.a.volumes[0].name pool_mismatch", "tasks.a.volumes[1].name pool_mismatch"}, []string{"pod_template"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.pool.Name = "p"
			faults := spec.CheckPool("a", task, tt.pool)
			require.ElementsMatch(t, tt.want, found(faults))
			for _, text := range tt.texts {
				require.Contains(t, faults[0].Detail, text)
			}
		})
	}
}

func TestCheckPool_hosts(t *testing.T) {
	t.Parallel()
	task := &run.TaskSpec{Image: "x", Volumes: []run.Volume{{Path: "/a", HostPath: "/srv/a"}, {Path: "/b", HostPath: "/opt/b"}}, Devices: []string{"/dev/kvm", "/dev/sda"}}
	all := []string{"tasks.a.devices[0] pool_mismatch", "tasks.a.devices[1] pool_mismatch", "tasks.a.volumes[0].host_path pool_mismatch", "tasks.a.volumes[1].host_path pool_mismatch"}
	lacking := []string{"tasks.a.devices pool_mismatch", all[2], all[3]}
	allowed := run.Pool{Driver: "docker", AllowedHostPaths: []string{"/srv/*", "/opt/b"}, AllowedDevices: []string{"/dev/*da", "/dev/kvm", "/dev/sda"}}
	switched := allowed
	switched.Features = []run.Feature{run.FeatureTmpfs}
	for name, tt := range map[string]struct {
		pool  run.Pool
		want  []string
		texts []string
	}{
		"none":        {run.Pool{Driver: "docker"}, all, []string{"it has no allowed_host_paths", "it has no allowed_devices"}},
		"some":        {run.Pool{Driver: "docker", AllowedHostPaths: []string{"/srv/*"}, AllowedDevices: []string{"/dev/k*"}}, []string{all[1], all[3]}, []string{"/opt/b", "its allowed_host_paths are /srv/*", "its allowed_devices are /dev/k*"}},
		"all":         {allowed, nil, nil},
		"no executor": {switched, lacking, []string{"executor.docker.host_access", "feature devices", "feature host_paths"}},
		"pods":        {run.Pool{Driver: "kubernetes", Features: []run.Feature{run.FeatureTmpfs}}, lacking, []string{"pod_template", "device plugin"}},
		"any pods":    {run.Pool{Driver: "kubernetes"}, all, []string{"can mount a path of the nodes", "device plugin"}},
		"on the host": {run.Pool{Driver: "shell"}, []string{"tasks.a.devices pool_mismatch", "tasks.a.image pool_mismatch", "tasks.a.volumes pool_mismatch"}, []string{"on the host itself"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.pool.Name = "p"
			faults := spec.CheckPool("a", task, tt.pool)
			require.ElementsMatch(t, tt.want, found(faults))
			var details strings.Builder
			for _, f := range faults {
				details.WriteString(f.Detail + "\n")
			}
			for _, text := range tt.texts {
				require.Contains(t, details.String(), text)
			}
		})
	}
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

	own := &run.TaskSpec{Image: "x", ServiceNetwork: run.ServiceNetworkOwn, Services: []run.ServiceSpec{{Image: "x"}}, Steps: []run.Step{{Run: "x"}}}
	for driver, features := range map[string][]run.Feature{run.DriverKubernetes: nil, run.DriverDocker: {run.FeatureServices}, run.DriverShell: nil} {
		faults = spec.CheckPool("a", own, run.Pool{Name: "p", Driver: driver, Features: features})
		require.Contains(t, found(faults), "tasks.a.service_network pool_mismatch", driver)
	}
	require.Empty(t, spec.CheckPool("a", own, run.Pool{Name: "p", Driver: run.DriverDocker, Features: []run.Feature{run.FeatureServices, run.FeatureOwnNetworks}}))
	require.Empty(t, spec.CheckPool("a", own, run.Pool{Name: "p", Driver: run.DriverDocker}), "features are not known")
	faults = spec.CheckPool("a", own, run.Pool{Name: "p", Driver: run.DriverKubernetes, Features: []run.Feature{run.FeatureServices}})
	require.Equal(t, []string{"tasks.a.service_network pool_mismatch"}, found(faults))
	require.Contains(t, faults[0].Detail, "share one network")
	own.ServiceNetwork = run.ServiceNetworkShared
	require.Empty(t, spec.CheckPool("a", own, run.Pool{Name: "p", Driver: run.DriverKubernetes, Features: []run.Feature{run.FeatureServices}}))

	shell := run.Pool{Name: "p", Driver: run.DriverShell, Features: []run.Feature{}}
	faults = spec.CheckPool("a", &run.TaskSpec{Steps: []run.Step{{Checkout: &run.Checkout{Repository: "https://h/r"}}}}, shell)
	require.Equal(t, []string{"tasks.a.steps[0].checkout pool_mismatch"}, found(faults))
	require.Contains(t, faults[0].Detail, "install git on its hosts")
}
