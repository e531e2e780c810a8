package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/drover-run/drover/run"
)

func testDriver(t testing.TB, change func(*Options)) *Driver {
	t.Helper()
	options := Options{
		Config: &rest.Config{Host: "https://127.0.0.1:1"}, Namespace: "tasks", ExecutorID: "e1", HelperImage: "drover:test",
	}
	if change != nil {
		change(&options)
	}
	d, err := New(options)
	require.NoError(t, err)
	return d
}

func testDefinition() run.Definition {
	return run.Definition{
		Key: run.Key{Run: run.ID(strings.Repeat("0a", 13)), Task: 3, Attempt: 1, Dispatch: 2}, Task: "build",
		Image: "golang:1.26", Shell: run.DefaultShell(), Grace: 10 * time.Second,
		Environment: map[string]string{"TOKEN": "hunter2"}, Secrets: []string{"hunter2"},
		Steps: []run.StepDef{{Script: "echo very secret script"}},
	}
}

func mainOf(pod *corev1.Pod) corev1.Container { return pod.Spec.Containers[0] }

func TestNewPod_shape(t *testing.T) {
	t.Parallel()
	d := testDriver(t, func(o *Options) {
		o.Set = "set-a"
		o.Owner = func(key run.Key) *metav1.OwnerReference {
			return &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: Name("drover", key), UID: "u1"}
		}
	})
	def := testDefinition()
	pod, err := d.newPod(def)
	require.NoError(t, err)

	require.Equal(t, "drover-"+string(def.Key.Run)+"-3-1-2", pod.Name)
	require.Equal(t, "tasks", pod.Namespace)
	require.Equal(t, map[string]string{
		LabelRun: string(def.Key.Run), LabelTask: "build", LabelKey: def.Key.String(), LabelExecutor: "e1", LabelSet: "set-a",
	}, pod.Labels)
	require.Equal(t, "build", pod.Annotations[annotationTask])
	require.Len(t, pod.Annotations[annotationNonce], 32)
	require.Equal(t, "u1", string(pod.OwnerReferences[0].UID))

	require.Equal(t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	require.EqualValues(t, 15, *pod.Spec.TerminationGracePeriodSeconds, "longer than the steps' own grace")
	require.False(t, *pod.Spec.AutomountServiceAccountToken)
	require.Empty(t, pod.Spec.ServiceAccountName)
	require.Equal(t, map[string]string{"kubernetes.io/os": "linux"}, pod.Spec.NodeSelector)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.Spec.SecurityContext.SeccompProfile.Type)
	require.Empty(t, pod.Spec.SchedulingGates)

	main := mainOf(pod)
	require.Equal(t, "golang:1.26", main.Image)
	require.Equal(t, corev1.PullIfNotPresent, main.ImagePullPolicy)
	require.Equal(t, "/.drover/bin/drover-shim", main.Command[0])
	require.Contains(t, main.Command, pod.Annotations[annotationNonce])
	require.Nil(t, main.SecurityContext, "the image's own user")
	require.True(t, main.VolumeMounts[0].ReadOnly, "the shim can not be changed from within")
	require.Empty(t, main.Resources)
	require.Equal(t, "drover:test", pod.Spec.InitContainers[0].Image)

	text, err := json.Marshal(pod)
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter2")
	require.NotContains(t, string(text), "secret script")
}

func TestNewPod(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		apply func(*run.Definition)
		allow bool
		check func(t *testing.T, pod *corev1.Pod)
		fault string
	}{
		"no image":           {apply: func(d *run.Definition) { d.Image = "" }, fault: "needs an image"},
		"privileged refused": {apply: func(d *run.Definition) { d.Privileged = true }, fault: "privileged"},
		"privileged": {allow: true, apply: func(d *run.Definition) { d.Privileged = true }, check: func(t *testing.T, pod *corev1.Pod) {
			t.Helper()
			require.True(t, *mainOf(pod).SecurityContext.Privileged)
			require.Nil(t, pod.Spec.SecurityContext)
		}},
		"service network": {apply: func(d *run.Definition) {
			d.ServiceNetwork, d.Services = run.ServiceNetworkOwn, []run.ServiceSpec{{Name: "db", Image: "x"}}
		}, fault: "share one network"},
		"processes": {apply: func(d *run.Definition) { d.Resources.PIDs = 10 }, fault: "resources.pids"},
		"resources": {
			apply: func(d *run.Definition) { d.Resources = run.Resources{CPU: "0.0015", Memory: "1Gi", GPUs: 2} },
			check: func(t *testing.T, pod *corev1.Pod) {
				t.Helper()
				r := mainOf(pod).Resources
				require.Equal(t, r.Requests, r.Limits)
				require.Equal(t, "2m", r.Limits.Cpu().String(), "rounded up")
				require.Equal(t, "1Gi", r.Limits.Memory().String())
				cards := r.Limits["nvidia.com/gpu"]
				require.Equal(t, "2", cards.String())
				require.Equal(t, r, pod.Spec.InitContainers[0].Resources, "quotas require limits of every container")
			},
		},
		"bad cpu":    {apply: func(d *run.Definition) { d.Resources.CPU = "many" }, fault: "resources.cpu"},
		"bad memory": {apply: func(d *run.Definition) { d.Resources.Memory = "12 bananas" }, fault: "resources.memory"},
		"pull policy": {apply: func(d *run.Definition) { d.PullPolicy = run.PullNever }, check: func(t *testing.T, pod *corev1.Pod) {
			t.Helper()
			require.Equal(t, corev1.PullNever, mainOf(pod).ImagePullPolicy)
		}},
		"platform": {apply: func(d *run.Definition) { d.Platform = "linux/arm64/v8" }, check: func(t *testing.T, pod *corev1.Pod) {
			t.Helper()
			require.Equal(t, "arm64", pod.Spec.NodeSelector["kubernetes.io/arch"])
		}},
		"platform of another system": {apply: func(d *run.Definition) { d.Platform = "windows/amd64" }, fault: "only linux"},
		"invalid platform":           {apply: func(d *run.Definition) { d.Platform = "amd64" }, fault: "os/arch"},
		"volumes": {
			apply: func(d *run.Definition) {
				d.Volumes = []run.Volume{{Path: "/scratch/", Tmpfs: &run.Tmpfs{Size: "64Mi"}}, {Path: "/data"}}
			},
			check: func(t *testing.T, pod *corev1.Pod) {
				t.Helper()
				require.Equal(t, "/scratch", mainOf(pod).VolumeMounts[2].MountPath)
				tmpfs := pod.Spec.Volumes[2].EmptyDir
				require.Equal(t, corev1.StorageMediumMemory, tmpfs.Medium)
				require.Equal(t, "64Mi", tmpfs.SizeLimit.String())
				require.Empty(t, pod.Spec.Volumes[3].EmptyDir.Medium)
			},
		},
		"secret files": {
			apply: func(d *run.Definition) {
				d.SecretFiles = map[string]string{"KEY": "seeded-content"}
			},
			check: func(t *testing.T, pod *corev1.Pod) {
				t.Helper()
				require.Equal(t, secretsDir, mainOf(pod).VolumeMounts[2].MountPath)
				require.Equal(t, corev1.StorageMediumMemory, pod.Spec.Volumes[2].EmptyDir.Medium)
				reported, err := json.Marshal(pod)
				require.NoError(t, err)
				require.NotContains(t, string(reported), "seeded-content")
			},
		},
		"volume over the shim":     {apply: func(d *run.Definition) { d.Volumes = []run.Volume{{Path: "/.drover/bin"}} }, fault: "path of a volume"},
		"volume at the root":       {apply: func(d *run.Definition) { d.Volumes = []run.Volume{{Path: "/x/.."}} }, fault: "path of a volume"},
		"tmpfs of a strange size":  {apply: func(d *run.Definition) { d.Volumes = []run.Volume{{Path: "/x", Tmpfs: &run.Tmpfs{Size: "big"}}} }, fault: "tmpfs size"},
		"user":                     {apply: func(d *run.Definition) { d.User = "builder" }, check: requireRoot},
		"user and group by number": {apply: func(d *run.Definition) { d.User = "1000:1000" }, check: requireRoot},
		"services": {
			apply: func(d *run.Definition) {
				d.Services = []run.ServiceSpec{
					{Name: "db", Image: "postgres", Environment: map[string]string{"B": "$(A)", "A": "1"}, Command: []string{"-c", "$(A)"}},
					{Name: "odd_name", Image: "redis"},
				}
			},
			check: func(t *testing.T, pod *corev1.Pod) {
				t.Helper()
				require.Len(t, pod.Spec.Containers, 3)
				db := pod.Spec.Containers[1]
				require.Equal(t, "service-0", db.Name)
				require.Equal(t, []string{"-c", "$$(A)"}, db.Args, "no variable is expanded")
				require.Equal(t, []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$$(A)"}}, db.Env)
				require.Nil(t, db.Command)
				require.Equal(t, []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: []string{"db"}}}, pod.Spec.HostAliases)
				require.Empty(t, db.VolumeMounts, "the journal is the task's")
			},
		},
		"credentials": {
			apply: func(d *run.Definition) { d.Auth = map[string]run.Auth{"ghcr.io": {Username: "u", Password: "p"}} },
			check: func(t *testing.T, pod *corev1.Pod) {
				t.Helper()
				require.Equal(t, []corev1.LocalObjectReference{{Name: pod.Name + "-pull"}}, pod.Spec.ImagePullSecrets)
				require.True(t, isGated(pod), "the secret comes first")
				require.Equal(t, []string{secretName(pod.Name)}, secretsOf(pod))
			},
		},
		"pool": {
			apply: func(d *run.Definition) {
				d.Kubernetes = &run.KubernetesPool{
					NodeSelector: map[string]string{"disk": "fast"}, ServiceAccount: "builder", RuntimeClass: "gvisor", PriorityClass: "low",
					Tolerations:      []run.Toleration{{Key: "ci", Operator: "Exists", Effect: "NoExecute", Seconds: new(int64(5))}},
					ImagePullSecrets: []string{"mirror"}, Labels: map[string]string{"team": "a", LabelKey: "mine"},
					Annotations: map[string]string{"note": "b", annotationNonce: "mine"},
					Affinity:    json.RawMessage(`{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":5,"preference":{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}}]}}`),
				}
			},
			check: func(t *testing.T, pod *corev1.Pod) {
				t.Helper()
				spec := pod.Spec
				require.Equal(t, map[string]string{"kubernetes.io/os": "linux", "disk": "fast"}, spec.NodeSelector)
				require.Equal(t, "builder", spec.ServiceAccountName)
				require.True(t, *spec.AutomountServiceAccountToken)
				require.Equal(t, "gvisor", *spec.RuntimeClassName)
				require.Equal(t, "low", spec.PriorityClassName)
				require.Equal(t, []corev1.Toleration{{Key: "ci", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(5))}}, spec.Tolerations)
				require.Equal(t, "mirror", spec.ImagePullSecrets[0].Name)
				require.EqualValues(t, 5, spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight)
				require.Equal(t, "a", pod.Labels["team"])
				require.NotEqual(t, "mine", pod.Labels[LabelKey])
				require.NotEqual(t, "mine", pod.Annotations[annotationNonce])
				require.Equal(t, "b", pod.Annotations["note"])
			},
		},
		"affinity with a typing error": {apply: pooled(run.KubernetesPool{Affinity: json.RawMessage(`{"nodeAfinity":{}}`)}), fault: "nodeAfinity"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := testDriver(t, func(o *Options) { o.AllowPrivileged = tt.allow })
			def := testDefinition()
			tt.apply(&def)
			pod, err := d.newPod(def)
			if tt.fault != "" {
				require.ErrorContains(t, err, tt.fault)
				require.Equal(t, run.CodeInvalid, run.CodeOf(err))
				return
			}
			require.NoError(t, err)
			tt.check(t, pod)
		})
	}
}

func requireRoot(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	require.Zero(t, *mainOf(pod).SecurityContext.RunAsUser, "the shim knows the names and switches to the user")
}

func pooled(pool run.KubernetesPool) func(*run.Definition) {
	return func(d *run.Definition) { d.Kubernetes = &pool }
}

func TestPodTemplate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		template string
		user     string
		check    func(t *testing.T, pod *corev1.Pod)
		fault    string
	}{
		"adds": {
			template: `{"metadata":{"labels":{"team":"a"}},"spec":{"priorityClassName":"high","dnsPolicy":"None",
				"volumes":[{"name":"cache","hostPath":{"path":"/cache"}}],
				"containers":[{"name":"task","resources":{"limits":{"nvidia.com/gpu":"1"}},"env":[{"name":"PROXY","value":"x"}],
					"volumeMounts":[{"name":"cache","mountPath":"/cache"}]},
					{"name":"sidecar","image":"helper"}]}}`,
			check: func(t *testing.T, pod *corev1.Pod) {
				t.Helper()
				require.Equal(t, "a", pod.Labels["team"])
				require.Equal(t, "high", pod.Spec.PriorityClassName)
				require.Equal(t, corev1.DNSNone, pod.Spec.DNSPolicy)
				main := mainOf(pod)
				require.Equal(t, "task", main.Name, "it is the first")
				require.Equal(t, "1", main.Resources.Limits.Name("nvidia.com/gpu", "").String())
				require.Equal(t, []corev1.EnvVar{{Name: "PROXY", Value: "x"}}, main.Env)
				require.Equal(t, "/cache", main.VolumeMounts[2].MountPath)
				require.Equal(t, "sidecar", pod.Spec.Containers[1].Name)
			},
		},
		"undoes nothing": {
			template: `{"metadata":{"name":"other","namespace":"other","labels":{"drover.run/key":"x"},"annotations":{"drover.run/nonce":"x"},
				"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}],"finalizers":["x/y"]},
				"spec":{"restartPolicy":"Always","nodeName":"n1",
				"volumes":[{"name":"drover-task","hostPath":{"path":"/etc"},"emptyDir":null},{"name":"drover-bin","$patch":"delete"}],
				"initContainers":[{"name":"drover-shim","image":"evil","command":["evil"]}],
				"containers":[{"name":"task","image":"evil","command":["evil"],"args":["x"],"stdin":true,"workingDir":"/x",
					"livenessProbe":{"exec":{"command":["false"]}},"lifecycle":{"postStart":{"exec":{"command":["x"]}}},
					"volumeMounts":[{"mountPath":"/.drover/bin","name":"drover-bin","readOnly":false},{"mountPath":"/.drover/task","$patch":"delete"}]}]}}`,
			check: func(t *testing.T, pod *corev1.Pod) {
				t.Helper()
				def := testDefinition()
				plain, err := testDriver(t, nil).newPod(def)
				require.NoError(t, err)
				plain.Annotations[annotationNonce] = pod.Annotations[annotationNonce]
				plain.Spec.Containers[0].Command[len(plain.Spec.Containers[0].Command)-1] = pod.Annotations[annotationNonce]
				require.Equal(t, plain, pod)
			},
		},
		"removes the task":    {template: `{"spec":{"containers":[{"name":"task","$patch":"delete"}]}}`, fault: "removes the container task"},
		"is not a template":   {template: `{"spec":{"containers":"none"}}`, fault: "can not be applied"},
		"has a typing error":  {template: `{"spec":{"priorityClass":"high"}}`, fault: "priorityClass"},
		"is privileged":       {template: `{"spec":{"containers":[{"name":"task","securityContext":{"privileged":true}}]}}`, fault: "allow_privileged"},
		"no root, named user": {template: `{"spec":{"securityContext":{"runAsNonRoot":true}}}`, user: "builder", fault: "runAsNonRoot"},
		"no root, root":       {template: `{"spec":{"securityContext":{"runAsNonRoot":true}}}`, user: "0", fault: "runAsNonRoot"},
		"no root, numbers": {template: `{"spec":{"securityContext":{"runAsNonRoot":true}}}`, user: "1000:2000", check: func(t *testing.T, pod *corev1.Pod) {
			t.Helper()
			require.EqualValues(t, 1000, *mainOf(pod).SecurityContext.RunAsUser)
			require.EqualValues(t, 2000, *mainOf(pod).SecurityContext.RunAsGroup)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def := testDefinition()
			def.User = tt.user
			def.Kubernetes = &run.KubernetesPool{PodTemplate: json.RawMessage(tt.template)}
			pod, err := testDriver(t, nil).newPod(def)
			if tt.fault != "" {
				require.ErrorContains(t, err, tt.fault)
				require.Equal(t, run.CodeInvalid, run.CodeOf(err))
				return
			}
			require.NoError(t, err)
			tt.check(t, pod)
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	key := testDefinition().Key
	require.Empty(t, validation.IsDNS1123Label(Name("drover", key)))
	key.Task, key.Attempt, key.Dispatch = 1<<62, 1<<62, 1<<62
	long := Name("drover", key)
	require.Empty(t, validation.IsDNS1123Label(long))
	key.Dispatch--
	require.NotEqual(t, long, Name("drover", key))

	for _, text := range []string{"", "a", "host-7.example", strings.Repeat("x", 63)} {
		require.Equal(t, text, LabelValue(text))
	}
	seen := map[string]bool{}
	for _, text := range []string{"build[GO=1.25]", "build[GO=1.26]", "-x", "x-", "_", "é", strings.Repeat("x", 64), strings.Repeat("x", 65)} {
		value := LabelValue(text)
		require.Empty(t, validation.IsValidLabelValue(value), text)
		require.False(t, seen[value], text)
		seen[value] = true
	}
}
