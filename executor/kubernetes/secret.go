package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-run/drover/run"
)

const (
	dockerHub = "docker.io"
	// dockerHubKey is the key under which kubelets look up Docker Hub's
	// credentials.
	dockerHubKey = "https://index.docker.io/v1/"
)

// openGate removes the gate that keeps a pod from being scheduled.
const openGate = `{"spec":{"schedulingGates":[{"name":"` + secretGate + `","$patch":"delete"}]}}`

func secretName(pod string) string { return pod + "-pull" }

// addSecret creates the secret with the task's credentials, owned by the pod,
// and lets the pod be scheduled.
func (s *starting) addSecret(ctx context.Context) error {
	d := s.driver
	content, err := registryAuth(s.task.Definition.Auth)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: secretName(s.pod.Name), Namespace: s.pod.Namespace,
			Labels: Labels(s.key(), d.options.ExecutorID, d.options.Set),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: s.pod.Name, UID: s.pod.UID,
			}},
		},
		Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: content},
	}
	ctx, cancel := d.call(ctx)
	defer cancel()
	secrets := d.client.Secrets(s.pod.Namespace)
	_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // from an earlier call, or from a pod that was removed
		if err = secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}); err == nil || apierrors.IsNotFound(err) {
			_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		}
	}
	if err != nil {
		return ServerError(err, "create the secret with the task's registry credentials")
	}
	if _, err := d.pods().Patch(ctx, s.pod.Name, types.StrategicMergePatchType, []byte(openGate), metav1.PatchOptions{}); err != nil {
		return ServerError(err, "remove the scheduling gate of the pod")
	}
	return nil
}

// registryAuth encodes credentials as kubelets read them.
func registryAuth(auth map[string]run.Auth) ([]byte, error) {
	type entry struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     string `json:"auth"`
	}
	entries := make(map[string]entry, len(auth))
	for host, a := range auth {
		if host == dockerHub || host == "index.docker.io" || host == "registry-1.docker.io" {
			host = dockerHubKey
		}
		entries[host] = entry{a.Username, a.Password, base64.StdEncoding.EncodeToString([]byte(a.Username + ":" + a.Password))}
	}
	text, err := json.Marshal(map[string]any{"auths": entries})
	if err != nil {
		return nil, fmt.Errorf("encode registry credentials: %w", err)
	}
	return text, nil
}

// isGated reports whether the pod waits for its secret.
func isGated(pod *corev1.Pod) bool {
	for _, g := range pod.Spec.SchedulingGates {
		if g.Name == secretGate {
			return true
		}
	}
	return false
}
