package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

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

// environmentName returns the name of the secret with variables of services.
func environmentName(pod string) string { return pod + "-env" }

// environmentKey returns the key of a variable of the i-th service in that secret. Names
// of variables can have characters that keys cannot.
func environmentKey(i int, variable string) string {
	return fmt.Sprintf("%d.%s", i, base64.RawURLEncoding.EncodeToString([]byte(variable)))
}

// hasServiceSecrets reports whether services have secrets as variables.
func hasServiceSecrets(def *run.Definition) bool {
	return slices.ContainsFunc(def.Services, func(s run.ServiceSpec) bool { return len(s.Secrets) > 0 })
}

// environmentData returns the content of the secret with variables of services.
func environmentData(def *run.Definition) map[string][]byte {
	data := make(map[string][]byte)
	for i, s := range def.Services {
		for variable := range s.Secrets {
			data[environmentKey(i, variable)] = []byte(s.Environment[variable])
		}
	}
	return data
}

// addSecrets creates the secrets with the task's credentials and with variables of its
// services, owned by the pod, and lets the pod be scheduled.
func (s *starting) addSecrets(ctx context.Context) error {
	d, def := s.driver, &s.task.Definition
	ctx, cancel := d.call(ctx)
	defer cancel()
	if len(def.Auth) > 0 {
		content, err := registryAuth(def.Auth)
		if err != nil {
			return err
		}
		data := map[string][]byte{corev1.DockerConfigJsonKey: content}
		if err := s.addSecret(ctx, secretName(s.pod.Name), corev1.SecretTypeDockerConfigJson, data); err != nil {
			return err
		}
	}
	if hasServiceSecrets(def) {
		if err := s.addSecret(ctx, environmentName(s.pod.Name), corev1.SecretTypeOpaque, environmentData(def)); err != nil {
			return err
		}
	}
	if _, err := d.pods().Patch(ctx, s.pod.Name, types.StrategicMergePatchType, []byte(openGate), metav1.PatchOptions{}); err != nil {
		return ServerError(err, "remove the scheduling gate of the pod")
	}
	return nil
}

func (s *starting) addSecret(ctx context.Context, name string, kind corev1.SecretType, data map[string][]byte) error {
	d := s.driver
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.pod.Namespace,
			Labels: Labels(s.key(), d.options.ExecutorID, d.options.Set),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: s.pod.Name, UID: s.pod.UID,
			}},
		},
		Type: kind, Data: data,
	}
	secrets := d.client.Secrets(s.pod.Namespace)
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // from an earlier call, or from a pod that was removed
		if err = secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}); err == nil || apierrors.IsNotFound(err) {
			_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		}
	}
	if err != nil {
		return ServerError(err, "create the secret %s", name)
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
	for _, host := range slices.Sorted(maps.Keys(auth)) { // of Docker Hub's hosts, docker.io comes first
		a := auth[host]
		if host == dockerHub || host == "index.docker.io" || host == "registry-1.docker.io" {
			host = dockerHubKey
		}
		if _, taken := entries[host]; taken {
			continue
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
