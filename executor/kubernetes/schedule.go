package kubernetes

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-run/drover/run"
)

// linux is the only operating system of containers that the shim supports.
const linux = "linux"

// schedule sets where the pod may run and as which account, according to the
// pool and the task's platform.
func schedule(pod *corev1.Pod, def run.Definition) error {
	spec := &pod.Spec
	spec.NodeSelector = map[string]string{corev1.LabelOSStable: linux}
	if def.Kubernetes != nil {
		if err := applyPool(pod, def.Kubernetes); err != nil {
			return err
		}
	}
	if def.Platform == "" {
		return nil
	}
	parts := strings.Split(def.Platform, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return run.Errorf(run.CodeInvalid, "platform %q is not of the form os/arch or os/arch/variant", def.Platform)
	}
	if parts[0] != linux {
		return run.Errorf(run.CodeInvalid, "platform %q: only %s containers can be run", def.Platform, linux)
	}
	spec.NodeSelector[corev1.LabelArchStable] = parts[1] // nodes have no label for the variant
	return nil
}

// applyPool applies the settings of the pool to a pod.
func applyPool(pod *corev1.Pod, pool *run.KubernetesPool) error {
	spec := &pod.Spec
	maps.Copy(spec.NodeSelector, pool.NodeSelector)
	for _, t := range pool.Tolerations {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value,
			Effect: corev1.TaintEffect(t.Effect), TolerationSeconds: t.Seconds,
		})
	}
	if len(pool.Affinity) > 0 {
		spec.Affinity = new(corev1.Affinity)
		if err := decodeStrictly(pool.Affinity, spec.Affinity); err != nil {
			return run.Errorf(run.CodeInvalid, "the pool's affinity: %w", err)
		}
	}
	if pool.ServiceAccount != "" {
		spec.ServiceAccountName, spec.AutomountServiceAccountToken = pool.ServiceAccount, new(true)
	}
	if pool.RuntimeClass != "" {
		spec.RuntimeClassName = new(pool.RuntimeClass)
	}
	spec.PriorityClassName = pool.PriorityClass
	for _, name := range pool.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	pod.Labels = overlay(maps.Clone(pool.Labels), pod.Labels)
	pod.Annotations = overlay(maps.Clone(pool.Annotations), pod.Annotations)
	return nil
}

// decodeStrictly decodes a part of a pod and refuses unknown fields, since a
// mistyped field would be dropped silently.
func decodeStrictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
