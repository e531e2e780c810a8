package kubernetes

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-run/drover/run"
)

// graceBeyond is how much longer than the steps' own grace period a pod that is
// ended from outside may take, so that the shim can report the end.
const graceBeyond = 5 * time.Second

// healthCallSeconds is the timeout of one call of a health check.
const healthCallSeconds = 10

// maxSecrets bounds the volume of secret files; a gateway limits the secrets of
// a task to less. The used part counts as memory of the task.
const maxSecrets = 64 << 20

// newPod returns the pod of a task. The error has CodeInvalid.
func (d *Driver) newPod(def run.Definition) (*corev1.Pod, error) {
	if err := d.check(def); err != nil {
		return nil, err
	}
	limits, err := limitsOf(def.Resources)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{
		ObjectMeta: d.meta(def),
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64((def.Grace+graceBeyond-1)/time.Second) + 1),
			EnableServiceLinks:            new(false),
			AutomountServiceAccountToken:  new(false),
			HostAliases:                   hostAliases(def),
			Volumes: []corev1.Volume{
				{Name: toolVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: taskVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
	nonce := newNonce()
	pod.Annotations[annotationNonce] = nonce
	for i, service := range def.Services {
		if i > 0 {
			pod.Annotations[annotationServices] += ","
		}
		pod.Annotations[annotationServices] += service.Name
	}
	pod.Spec.InitContainers = []corev1.Container{d.installer(limits)}
	main := corev1.Container{
		Name: mainContainer, Image: def.Image, ImagePullPolicy: pullPolicy(def.PullPolicy),
		Command: []string{
			shimPath, "run", "--dir", taskDir, "--order", "socket", "--strict", "--inherit", "--stdout", nonce,
		},
		Resources: limits,
		VolumeMounts: []corev1.VolumeMount{
			{Name: toolVolume, MountPath: toolDir, ReadOnly: true},
			{Name: taskVolume, MountPath: taskDir},
		},
	}
	if def.Privileged {
		main.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	} else {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
	}
	if len(def.SecretFiles) > 0 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, secretsInMemory(secretsVolume))
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: secretsVolume, MountPath: secretsDir})
	}
	if err := addVolumes(pod, &main, def.Volumes); err != nil {
		return nil, err
	}
	helpers := addHelpers(pod, &main, def)
	pod.Spec.Containers = []corev1.Container{main}
	for i, s := range def.Services {
		c, err := serviceOf(i, s, def, pod.Name)
		if err != nil {
			return nil, err
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	pod.Spec.Containers = append(pod.Spec.Containers, helpers...)
	if len(def.Auth) > 0 {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secretName(pod.Name)}}
	}
	if len(def.Auth) > 0 || hasServiceSecrets(&def) {
		// The pod owns the secrets, so they are created after the pod. The gate keeps
		// the pod from being scheduled before.
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: secretGate}}
	}
	if err := schedule(pod, def); err != nil {
		return nil, err
	}
	return d.customize(pod, def)
}

// check refuses what the driver does not support or allow.
func (d *Driver) check(def run.Definition) error {
	switch {
	case def.Image == "":
		return run.Errorf(run.CodeInvalid, "a task on the kubernetes driver needs an image")
	case def.Privileged && !d.options.AllowPrivileged:
		return run.Errorf(run.CodeInvalid, "privileged tasks are not allowed on this executor (allow_privileged is off)")
	case slices.ContainsFunc(def.Services, func(s run.ServiceSpec) bool { return s.Privileged }) && !d.options.AllowPrivileged:
		return run.Errorf(run.CodeInvalid, "privileged services are not allowed on this executor (allow_privileged is off)")
	case def.ServiceNetwork == run.ServiceNetworkOwn:
		return run.Errorf(run.CodeInvalid, "service_network: own is not supported: the containers of a Kubernetes pod share one network")
	case run.PersistentVolumes(def.Volumes):
		return run.Errorf(run.CodeInvalid, "persistent volumes are not supported: the pod template of the pool can mount a claim")
	case run.HostPaths(def.Volumes):
		return run.Errorf(run.CodeInvalid, "host_path is not supported: the pod template of the pool can mount a path of the nodes")
	case len(def.Devices) > 0:
		return run.Errorf(run.CodeInvalid, "devices are not supported: a pod gets those of its node from a device plugin")
	case slices.ContainsFunc(def.Services, func(s run.ServiceSpec) bool { return s.Resources.PIDs > 0 }):
		return run.Errorf(run.CodeInvalid, "resources.pids of a service is not supported: Kubernetes has no such limit for a container")
	case def.Resources.PIDs > 0:
		return run.Errorf(run.CodeInvalid, "resources.pids is not supported: a Kubernetes pod has no such limit of its own, only nodes have one for all pods")
	}
	return nil
}

func (d *Driver) meta(def run.Definition) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name:      d.name(def.Key),
		Namespace: d.options.Namespace,
		Labels:    Labels(def.Key, d.options.ExecutorID, d.options.Set),
		Annotations: map[string]string{
			annotationTask: def.Task,
			// Autoscalers that evict pods to free nodes spare this one.
			"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
			"karpenter.sh/do-not-disrupt":                    "true",
		},
	}
	meta.Labels[LabelTask] = LabelValue(def.Task)
	if d.options.Owner != nil {
		if owner := d.options.Owner(def.Key); owner != nil {
			meta.OwnerReferences = []metav1.OwnerReference{*owner}
		}
	}
	return meta
}

// installer returns the init container that installs the shim. It requests the
// same resources as the task's container. Both never run at the same time, so
// that costs nothing, and it has limits if the namespace requires them.
func (d *Driver) installer(limits corev1.ResourceRequirements) corev1.Container {
	return corev1.Container{
		Name: shimContainer, Image: d.options.HelperImage, ImagePullPolicy: pullPolicy(d.options.HelperPullPolicy),
		Command:      []string{helperPath, "install", "--dir", toolDir},
		Resources:    limits,
		VolumeMounts: []corev1.VolumeMount{{Name: toolVolume, MountPath: toolDir}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// serviceOf returns the container of a service. Its secrets are in a secret of the
// cluster, and not in the pod.
func serviceOf(i int, s run.ServiceSpec, def run.Definition, pod string) (corev1.Container, error) {
	c := corev1.Container{
		Name: fmt.Sprint(serviceContainer, i), Image: s.Image, ImagePullPolicy: pullPolicy(def.PullPolicy),
		Command: literal(s.Entrypoint), Args: literal(s.Command),
	}
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		if _, secret := s.Secrets[name]; secret {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: environmentName(pod)}, Key: environmentKey(i, name),
			}}})
			continue
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: literal([]string{s.Environment[name]})[0]})
	}
	var err error
	if c.Resources, err = limitsOf(s.Resources); err != nil {
		return c, run.Errorf(run.CodeInvalid, "service %s: %w", s.Name, err)
	}
	if s.Privileged {
		c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}
	if s.ShareWorkingDir {
		c.VolumeMounts = []corev1.VolumeMount{workMount(def)}
	}
	if s.Health != nil {
		c.ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: slices.Clone(s.Health.Command)}},
			PeriodSeconds: 1, TimeoutSeconds: healthCallSeconds, FailureThreshold: math.MaxInt32,
		}
	}
	return c, nil
}

// literal returns texts in which Kubernetes expands no reference such as $(NAME).
func literal(texts []string) []string {
	out := slices.Clone(texts)
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], "$(", "$$(")
	}
	return out
}

// hostAliases makes services reachable by name, if the name is a valid host
// name, and adds the extra hosts.
func hostAliases(def run.Definition) []corev1.HostAlias {
	var aliases []corev1.HostAlias
	var names []string
	for _, s := range def.Services {
		names = append(names, slices.DeleteFunc(s.HostNames(), func(name string) bool { return !isHostName(name) })...)
	}
	if names != nil {
		aliases = append(aliases, corev1.HostAlias{IP: "127.0.0.1", Hostnames: names})
	}
	for _, name := range slices.Sorted(maps.Keys(def.ExtraHosts)) {
		aliases = append(aliases, corev1.HostAlias{IP: def.ExtraHosts[name], Hostnames: []string{name}})
	}
	return aliases
}

func isHostName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

func addVolumes(pod *corev1.Pod, main *corev1.Container, volumes []run.Volume) error {
	for i, v := range volumes {
		target := path.Clean(v.Path)
		if !path.IsAbs(target) || target == "/" || target == "/.drover" || strings.HasPrefix(target, "/.drover/") || strings.Contains(target, ":") {
			return run.Errorf(run.CodeInvalid, "%q can not be the path of a volume", v.Path)
		}
		source := &corev1.EmptyDirVolumeSource{}
		if v.Tmpfs != nil {
			source.Medium = corev1.StorageMediumMemory
			if v.Tmpfs.Size != "" {
				bytes, err := run.ParseMemory(v.Tmpfs.Size)
				if err != nil {
					return run.Errorf(run.CodeInvalid, "tmpfs size: %w", err)
				}
				source.SizeLimit = resource.NewQuantity(bytes, resource.BinarySI)
			}
		}
		name := fmt.Sprint(scratchVolume, i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: source}})
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: target})
	}
	return nil
}

// gpus is the resource that NVIDIA's device plugin offers on the nodes.
const gpus corev1.ResourceName = "nvidia.com/gpu"

// limitsOf returns requests equal to the limits: tasks get what they request
// and no more, independent of other pods on the node.
func limitsOf(desired run.Resources) (corev1.ResourceRequirements, error) {
	list := corev1.ResourceList{}
	if desired.CPU != "" {
		nanos, err := run.ParseCPU(desired.CPU)
		if err != nil {
			return corev1.ResourceRequirements{}, run.Errorf(run.CodeInvalid, "resources.cpu: %w", err)
		}
		const nanosPerMilli = 1e6
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity((nanos-1)/nanosPerMilli+1, resource.DecimalSI)
	}
	if desired.Memory != "" {
		bytes, err := run.ParseMemory(desired.Memory)
		if err != nil {
			return corev1.ResourceRequirements{}, run.Errorf(run.CodeInvalid, "resources.memory: %w", err)
		}
		list[corev1.ResourceMemory] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	if desired.GPUs > 0 {
		list[gpus] = *resource.NewQuantity(int64(desired.GPUs), resource.DecimalSI)
	}
	if len(list) == 0 {
		return corev1.ResourceRequirements{}, nil
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}, nil
}

func pullPolicy(policy run.PullPolicy) corev1.PullPolicy {
	switch policy {
	case run.PullAlways:
		return corev1.PullAlways
	case run.PullNever:
		return corev1.PullNever
	default:
		return corev1.PullIfNotPresent
	}
}

// newNonce returns the random prefix that tells the shim's frames from the
// output of other processes.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
