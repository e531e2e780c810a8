package kubernetes

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-run/drover/executor/kubernetes/podpatch"
	"github.com/drover-run/drover/run"
)

// customize applies the pool's template and sets the task's user. The error has
// CodeInvalid.
func (d *Driver) customize(pod *corev1.Pod, def run.Definition) (*corev1.Pod, error) {
	if def.Kubernetes != nil && len(def.Kubernetes.PodTemplate) > 0 {
		patched, err := patch(pod, def.Kubernetes.PodTemplate)
		if err != nil {
			return nil, err
		}
		if err := restoreFields(patched, pod); err != nil {
			return nil, err
		}
		pod = patched
	}
	if !d.options.AllowPrivileged {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged {
				return nil, run.Errorf(run.CodeInvalid, "the pool's pod template makes container %s privileged, which this executor does not allow (allow_privileged is off)", c.Name)
			}
		}
	}
	return pod, setUser(pod, def.User)
}

func patch(pod *corev1.Pod, template json.RawMessage) (*corev1.Pod, error) {
	fail := func(err error) (*corev1.Pod, error) {
		return nil, run.Errorf(run.CodeInvalid, "the pool's pod template can not be applied: %w", err)
	}
	original, err := json.Marshal(pod)
	if err != nil {
		return fail(err)
	}
	merged, err := podpatch.Apply(original, template)
	if err != nil {
		return fail(err)
	}
	patched := new(corev1.Pod)
	if err := decodeStrictly(merged, patched); err != nil {
		return fail(err)
	}
	return patched, nil
}

// restoreFields restores the fields of a patched pod that Drover needs.
func restoreFields(pod, desired *corev1.Pod) error {
	labels, annotations := pod.Labels, pod.Annotations
	pod.ObjectMeta = *desired.ObjectMeta.DeepCopy()
	pod.Labels, pod.Annotations = overlay(labels, desired.Labels), overlay(annotations, desired.Annotations)
	spec, want := &pod.Spec, &desired.Spec
	spec.RestartPolicy = want.RestartPolicy
	spec.NodeName = "" // the scheduler sets it, considering taints and resources
	spec.EphemeralContainers = nil
	spec.SchedulingGates = slices.Clone(want.SchedulingGates)
	for _, s := range want.ImagePullSecrets {
		if !slices.Contains(spec.ImagePullSecrets, s) {
			spec.ImagePullSecrets = append(spec.ImagePullSecrets, s)
		}
	}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		return slices.ContainsFunc(want.Volumes, func(w corev1.Volume) bool { return w.Name == v.Name })
	})
	spec.Volumes = append(slices.Clone(want.Volumes), spec.Volumes...)
	var err error
	if spec.InitContainers, err = restoreContainers(spec.InitContainers, want.InitContainers); err != nil {
		return err
	}
	spec.Containers, err = restoreContainers(spec.Containers, want.Containers)
	return err
}

// overlay returns base overlaid with ours.
func overlay(base, ours map[string]string) map[string]string {
	if base == nil {
		base = make(map[string]string)
	}
	maps.Copy(base, ours)
	return base
}

// restoreContainers puts the required containers first, each with the fields that
// Drover needs.
func restoreContainers(have, want []corev1.Container) ([]corev1.Container, error) {
	var out []corev1.Container
	for _, w := range want {
		i := slices.IndexFunc(have, func(c corev1.Container) bool { return c.Name == w.Name })
		if i < 0 {
			return nil, run.Errorf(run.CodeInvalid, "the pool's pod template removes the container %s", w.Name)
		}
		out = append(out, restoreContainer(have[i], w))
		have = slices.Delete(have, i, i+1)
	}
	return append(out, have...), nil
}

// restoreContainer keeps resources, security context, variables and further mounts of
// the template, and restores everything else.
func restoreContainer(c, want corev1.Container) corev1.Container {
	c.Image, c.ImagePullPolicy = want.Image, want.ImagePullPolicy
	c.Command, c.Args, c.WorkingDir = want.Command, want.Args, want.WorkingDir
	c.Stdin, c.StdinOnce, c.TTY = false, false, false
	c.RestartPolicy, c.RestartPolicyRules, c.Lifecycle = nil, nil, nil
	c.LivenessProbe, c.StartupProbe = nil, nil // they can end containers
	if want.ReadinessProbe != nil {
		c.ReadinessProbe = want.ReadinessProbe
	}
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return strings.HasPrefix(m.MountPath, "/.drover") ||
			slices.ContainsFunc(want.VolumeMounts, func(w corev1.VolumeMount) bool { return w.MountPath == m.MountPath })
	})
	c.VolumeMounts = append(slices.Clone(want.VolumeMounts), c.VolumeMounts...)
	return c
}

// setUser sets the user of the containers that run steps.
func setUser(pod *corev1.Pod, user string) error {
	if user == "" {
		return nil
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name != mainContainer && !strings.HasPrefix(c.Name, helperContainer) {
			continue
		}
		if err := setContainerUser(pod, c, user); err != nil {
			return err
		}
	}
	return nil
}

// setContainerUser lets the shim of a container switch to the task's user. The shim
// switches from root, and knows the user names of the image. If the pool does not allow
// root in pods, the container itself runs as the user, by number.
func setContainerUser(pod *corev1.Pod, c *corev1.Container, user string) error {
	context := c.SecurityContext
	if context == nil {
		context = &corev1.SecurityContext{}
		c.SecurityContext = context
	}
	unprivileged := pod.Spec.SecurityContext != nil && isTrue(pod.Spec.SecurityContext.RunAsNonRoot)
	if context.RunAsNonRoot != nil {
		unprivileged = *context.RunAsNonRoot
	}
	if !unprivileged {
		context.RunAsUser, context.RunAsGroup = new(int64(0)), new(int64(0))
		return nil
	}
	name, group, grouped := strings.Cut(user, ":")
	uid, err := strconv.ParseInt(name, 10, 32)
	if err == nil && grouped {
		var gid int64
		gid, err = strconv.ParseInt(group, 10, 32)
		context.RunAsGroup = &gid
	}
	if err != nil || uid <= 0 {
		return run.Errorf(run.CodeInvalid, "user %q: pods of this pool can not run as root (runAsNonRoot), so the user must be a number above 0, or two as in 1000:1000", user)
	}
	context.RunAsUser = &uid
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }
