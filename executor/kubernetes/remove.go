package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-run/drover/run"
)

const (
	// removeGrace is the grace period, in seconds, of containers whose pod is
	// removed. It is the minimum: the task is over.
	removeGrace = 1
	// nodeTimeout is how long a node may take to end a pod. After that the
	// driver assumes that the node is lost, and removes the pod without it.
	nodeTimeout = 45 * time.Second
)

// removeAll removes the pod of a key and its secret, and returns when they do
// not exist any more.
func (d *Driver) removeAll(ctx context.Context, key run.Key) error {
	pod, err := d.pod(ctx, d.name(key))
	if err != nil || pod == nil {
		return err
	}
	return d.removePod(ctx, pod, nil)
}

// removePod removes a pod and its secret. With a version, it removes the pod
// only if the pod still has that version; otherwise the error has CodeConflict.
func (d *Driver) removePod(ctx context.Context, pod *corev1.Pod, version *string) error {
	name := pod.Name
	if err := d.deletePod(ctx, pod, removeGrace, version); err != nil {
		return err
	}
	for _, secret := range secretsOf(pod) { // the cluster would remove them, some time after their owner
		if err := d.deleteSecret(ctx, secret); err != nil {
			return err
		}
	}
	timeout, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	gone := func(now *corev1.Pod) (bool, error) { return now == nil || now.UID != pod.UID, nil }
	err := d.await(timeout, name, gone)
	if err == nil || ctx.Err() != nil || timeout.Err() == nil {
		return err
	}
	d.log.WarnContext(ctx, "the node does not end a pod; removing the pod without it", "pod", name, "node", pod.Spec.NodeName)
	if err := d.deletePod(ctx, pod, 0, nil); err != nil {
		return err
	}
	return d.await(ctx, name, gone)
}

func (d *Driver) deletePod(ctx context.Context, pod *corev1.Pod, grace int64, version *string) error {
	ctx, cancel := d.call(ctx)
	defer cancel()
	err := d.pods().Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, PropagationPolicy: new(metav1.DeletePropagationBackground),
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: version},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err) && version == nil:
		return nil // another pod has the name by now
	}
	return ServerError(err, "remove the pod %s", pod.Name)
}

func (d *Driver) deleteSecret(ctx context.Context, name string) error {
	ctx, cancel := d.call(ctx)
	defer cancel()
	err := d.client.Secrets(d.options.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return ServerError(err, "remove the secret %s", name)
	}
	return nil
}

// secretsOf returns the names of the secrets that were created for a pod.
func secretsOf(pod *corev1.Pod) []string {
	var names []string
	for _, s := range pod.Spec.ImagePullSecrets {
		if s.Name == secretName(pod.Name) {
			names = append(names, s.Name)
		}
	}
	for _, c := range pod.Spec.Containers {
		for _, v := range c.Env {
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil && v.ValueFrom.SecretKeyRef.Name == environmentName(pod.Name) {
				return append(names, environmentName(pod.Name))
			}
		}
	}
	return names
}
