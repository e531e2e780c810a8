// Package chart holds the tests of the Helm chart in deploy/helm/drover. It is
// a module of its own, so that no other module depends on Helm.
package chart

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	release   = "runs"
	namespace = "drover-chart-test"
)

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(filepath.Join("..", "..", "deploy", "helm", "drover"))
	require.NoError(t, err)
	return c
}

// render returns the objects of the chart with the given values.
func render(t *testing.T, values chartutil.Values) []*unstructured.Unstructured {
	t.Helper()
	c := load(t)
	rendered, err := renderText(c, values)
	require.NoError(t, err)
	var objects []*unstructured.Unstructured
	for _, file := range slices.Sorted(maps.Keys(rendered)) {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered[file]), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, "%s:\n%s", file, rendered[file])
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
	}
	return objects
}

func renderText(c *chart.Chart, values chartutil.Values) (map[string]string, error) {
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(c, all)
}

func valuesOf(t *testing.T, file string) chartutil.Values {
	t.Helper()
	values, err := chartutil.ReadValuesFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	return values
}

func ofKind[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) []T {
	t.Helper()
	var found []T
	for _, o := range objects {
		if o.GetKind() == kind {
			var typed T
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true), o.GetName())
			found = append(found, typed)
		}
	}
	return found
}

func TestChart_parts(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"least.yaml": {"runs-drover-control", "runs-drover-gateway"},
		"most.yaml": {
			"runs-drover-control", "runs-drover-executor-linux", "runs-drover-executor-tenants", "runs-drover-fleets", "runs-drover-gateway", "runs-drover-relay",
		},
	} {
		var names []string
		for _, d := range ofKind[appsv1.Deployment](t, render(t, valuesOf(t, file)), "Deployment") {
			names = append(names, d.Name)
			pod := d.Spec.Template.Spec
			require.True(t, *pod.SecurityContext.RunAsNonRoot, d.Name)
			require.True(t, *pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem, d.Name)
			require.Equal(t, strings.Contains(d.Name, "-executor-"), *pod.AutomountServiceAccountToken, "%s: only executors call the API server", d.Name)
			require.Equal(t, d.Spec.Selector.MatchLabels["app.kubernetes.io/component"], d.Spec.Template.Labels["app.kubernetes.io/component"])
		}
		slices.Sort(names)
		require.Equal(t, want, names, file)
	}
}

// Executors get rights in the namespace of their tasks. No other rights are
// granted.
func TestChart_grants_minimal_rights(t *testing.T) {
	t.Parallel()
	var holders []string
	for _, o := range render(t, valuesOf(t, "most.yaml")) {
		require.NotContains(t, o.GetKind(), "ClusterRole")
		require.NotEmpty(t, o.GetNamespace(), "%s %s", o.GetKind(), o.GetName())
		if o.GetKind() == "Role" {
			holders = append(holders, o.GetName())
			require.Equal(t, "drover-tasks", o.GetNamespace())
			content, err := o.MarshalJSON()
			require.NoError(t, err)
			require.NotContains(t, string(content), "*")
		}
	}
	slices.Sort(holders)
	require.Equal(t, []string{"runs-drover-executor-linux", "runs-drover-executor-tenants"}, holders)
	for _, o := range render(t, valuesOf(t, "least.yaml")) {
		require.NotContains(t, o.GetKind(), "Role")
	}
}

// The members of a set share the set's name, namespace and name prefix of pods.
func TestChart_forms_sets(t *testing.T) {
	t.Parallel()
	objects := render(t, valuesOf(t, "most.yaml"))
	sets := map[string]string{}
	for _, c := range ofKind[corev1.ConfigMap](t, objects, "ConfigMap") {
		var config struct {
			Executor struct {
				Set, Driver, Pool string
				Kubernetes        struct{ Namespace string }
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(c.Data["drover.yaml"]), &config))
		if e := config.Executor; e.Driver != "" {
			sets[c.Name] = e.Driver + " " + e.Pool + " " + e.Set + " " + e.Kubernetes.Namespace
		}
	}
	require.Equal(t, map[string]string{
		"runs-drover-executor-linux":   "kubernetes linux runs-drover-executor-linux drover-tasks",
		"runs-drover-executor-tenants": "kubernetes tenant-pool tenants drover-tasks",
	}, sets)
}

// Every process must accept its configuration.
func TestChart_settings_exist(t *testing.T) {
	t.Parallel()
	drover := filepath.Join("..", "..", "bin", "drover")
	if _, err := os.Stat(drover); err != nil {
		missing(t, "there is no bin/drover", "make build")
	}
	for _, file := range []string{"least.yaml", "most.yaml"} {
		objects := render(t, valuesOf(t, file))
		configs := map[string]string{}
		for _, c := range ofKind[corev1.ConfigMap](t, objects, "ConfigMap") {
			configs[c.Name] = c.Data["drover.yaml"]
		}
		for _, d := range ofKind[appsv1.Deployment](t, objects, "Deployment") {
			config := filepath.Join(t.TempDir(), "drover.yaml")
			require.NoError(t, os.WriteFile(config, []byte(configs[d.Name]), 0o600))
			require.NotEmpty(t, configs[d.Name], d.Name)
			cmd := exec.CommandContext(t.Context(), drover, "config", "print", "--config", config)
			for _, e := range d.Spec.Template.Spec.Containers[0].Env {
				cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
			}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			require.NoError(t, cmd.Run(), "%s: %s\n%s", d.Name, &out, configs[d.Name])
			args := d.Spec.Template.Spec.Containers[0].Args
			require.Equal(t, []string{"start", "--config"}, []string{args[0], args[2]})
			help, err := exec.CommandContext(t.Context(), drover, "start", args[1], "--help").Output()
			require.NoError(t, err, args)
			require.Contains(t, string(help), "drover start "+args[1]+" [flags]")
		}
	}
}

// The ingress passes the base path of the gateway on.
func TestChart_base_path(t *testing.T) {
	t.Parallel()
	objects := render(t, valuesOf(t, "most.yaml"))
	ingresses := ofKind[networkingv1.Ingress](t, objects, "Ingress")
	require.Len(t, ingresses, 1)
	require.Equal(t, "/ci/drover", ingresses[0].Spec.Rules[0].HTTP.Paths[0].Path)
	for _, c := range ofKind[corev1.ConfigMap](t, objects, "ConfigMap") {
		require.Equal(t, c.Name == "runs-drover-gateway", strings.Contains(c.Data["drover.yaml"], "base_path: /ci/drover"), c.Name)
	}
}

// TestChart_runs_one_fleet_worker checks that one process manages a fleet at a
// time, also during a rollout. The process gets the key that creates
// credentials of instances, and no secret that it does not need.
func TestChart_runs_one_fleet_worker(t *testing.T) {
	t.Parallel()
	for _, d := range ofKind[appsv1.Deployment](t, render(t, valuesOf(t, "most.yaml")), "Deployment") {
		if d.Name != "runs-drover-fleets" {
			continue
		}
		require.EqualValues(t, 1, *d.Spec.Replicas)
		require.Equal(t, appsv1.RecreateDeploymentStrategyType, d.Spec.Strategy.Type)
		var secrets []string
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.Secret != nil {
				secrets = append(secrets, v.Secret.SecretName)
			}
		}
		require.ElementsMatch(t, []string{"records", "fleet-keys", "relay-keys", "records-keys", "codec", "company-ca"}, secrets)
		return
	}
	t.Fatal("there is no fleet worker")
}

// Only processes that read secrets get their keys. All processes that reach
// Temporal directly get the keys of payloads.
func TestChart_gives_keys_only_to_their_readers(t *testing.T) {
	t.Parallel()
	has := map[string][]string{}
	for _, d := range ofKind[appsv1.Deployment](t, render(t, valuesOf(t, "most.yaml")), "Deployment") {
		pod := d.Spec.Template.Spec
		for _, v := range pod.Volumes {
			if v.Secret == nil || !slices.Contains([]string{"codec", "records-keys"}, v.Secret.SecretName) {
				continue
			}
			has[v.Secret.SecretName] = append(has[v.Secret.SecretName], strings.TrimPrefix(d.Name, "runs-drover-"))
			require.True(t, slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == v.Name && m.ReadOnly
			}), d.Name)
		}
	}
	require.ElementsMatch(t, []string{"control", "fleets", "gateway"}, has["records-keys"])
	require.ElementsMatch(t, []string{"control", "executor-linux", "fleets", "gateway", "relay"}, has["codec"])
	for _, c := range ofKind[corev1.ConfigMap](t, render(t, valuesOf(t, "most.yaml")), "ConfigMap") {
		name := strings.TrimPrefix(c.Name, "runs-drover-")
		require.Equal(t, slices.Contains(has["records-keys"], name), strings.Contains(c.Data["drover.yaml"], "/etc/drover-secrets/records-keys/keys"), name)
		require.Equal(t, slices.Contains(has["codec"], name), strings.Contains(c.Data["drover.yaml"], "/etc/drover-secrets/codec/codec.keys"), name)
	}
}

// TestChart_files checks that the gateway finds the files that its settings name in the
// secrets of the values, and that each process has its extra volumes.
func TestChart_files(t *testing.T) {
	t.Parallel()
	objects := render(t, valuesOf(t, "most.yaml"))
	var config struct {
		Gateway struct {
			SecretProvidersFile string `json:"secret_providers_file"`
			OIDC                struct {
				Issuer           string `json:"issuer"`
				ClientSecretFile string `json:"client_secret_file"`
				CAFile           string `json:"ca_file"`
				RolesFile        string `json:"roles_file"`
			} `json:"oidc"`
		} `json:"gateway"`
	}
	for _, c := range ofKind[corev1.ConfigMap](t, objects, "ConfigMap") {
		if c.Name == "runs-drover-gateway" {
			require.NoError(t, yaml.Unmarshal([]byte(c.Data["drover.yaml"]), &config))
		}
	}
	require.Equal(t, "https://login.example.com", config.Gateway.OIDC.Issuer)
	extra := map[string]string{}
	for _, d := range ofKind[appsv1.Deployment](t, objects, "Deployment") {
		pod := d.Spec.Template.Spec
		secrets := map[string]string{} // by path
		for _, m := range pod.Containers[0].VolumeMounts {
			i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
			require.NotEqual(t, -1, i, "%s has no volume %s", d.Name, m.Name)
			if s := pod.Volumes[i].Secret; s != nil {
				secrets[m.MountPath] = s.SecretName
			}
			if m.Name == "extra" || m.Name == "vault" {
				extra[strings.TrimPrefix(d.Name, "runs-drover-")] = m.MountPath
			}
		}
		require.Equal(t, "company-ca", secrets["/etc/drover-secrets/authorities"], d.Name)
		require.Contains(t, pod.Containers[0].Env, corev1.EnvVar{Name: "SSL_CERT_DIR", Value: "/etc/drover-secrets/authorities"}, d.Name)
		if d.Name != "runs-drover-gateway" {
			continue
		}
		for file, want := range map[string]string{
			config.Gateway.OIDC.ClientSecretFile: "oidc secret", config.Gateway.OIDC.CAFile: "oidc ca.crt",
			config.Gateway.OIDC.RolesFile: "drover-roles grants.yaml", config.Gateway.SecretProvidersFile: "providers secret-providers.yaml",
		} {
			require.Equal(t, want, secrets[filepath.Dir(file)]+" "+filepath.Base(file), file)
		}
	}
	require.Equal(t, map[string]string{
		"gateway": "/etc/vault", "control": "/etc/extra", "executor-tenants": "/etc/extra", "fleets": "/etc/extra", "relay": "/etc/extra",
	}, extra)
}

func TestChart_refuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ set, want string }{
		"no address of Temporal":    {`temporal: {address: ""}`, "/temporal/address"},
		"no secret of the records":  {`records: {dsnSecret: {name: ""}}`, "dsnSecret"},
		"a relative base path":      {`gateway: {basePath: "drover/"}`, "basePath"},
		"no tokens":                 {`tokens: {secret: ""}`, "tokens"},
		"an unknown value":          {`gatway: {replicas: 2}`, "gatway"},
		"an executor with no token": {`executors: {linux: {slots: 3}}`, "token"},
		"a relay without TLS":       {`relay: {enabled: true}`, "relay"},
		"no slots":                  {`executors: {linux: {slots: 0, token: {secret: x}}}`, "slots"},
		"no keys of instances":      {`fleets: {enabled: true, bootstrap: {gatewayURL: "https://a.example", relayAddress: "b:1"}}`, "relay.keys.secret"},
		"instances with no relay":   {`{relay: {keys: {secret: x}}, fleets: {enabled: true, bootstrap: {gatewayURL: "https://a.example"}}}`, "relayAddress"},
		"a volume without a name":   {`control: {extraVolumes: [{emptyDir: {}}]}`, "extraVolumes"},
		"a mount without a path":    {`relay: {extraVolumeMounts: [{name: x}]}`, "extraVolumeMounts"},
		"no relay to go through":    {`executors: {linux: {throughRelay: true, token: {secret: x}}}`, "not enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := valuesOf(t, "least.yaml")
			wrong, err := chartutil.ReadValues([]byte(tc.set))
			require.NoError(t, err)
			_, err = renderText(load(t), chartutil.CoalesceTables(wrong, values))
			require.ErrorContains(t, err, tc.want)
		})
	}
}
