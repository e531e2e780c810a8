package run

import "encoding/json"

// KubernetesPool configures the pods of a pool's tasks.
type KubernetesPool struct {
	NodeSelector map[string]string `json:"node_selector,omitempty"`
	Tolerations  []Toleration      `json:"tolerations,omitempty"`
	// Affinity has the form of a pod's affinity (node, pod and anti-affinity).
	Affinity         json.RawMessage `json:"affinity,omitempty"`
	ServiceAccount   string          `json:"service_account,omitempty"`
	RuntimeClass     string          `json:"runtime_class,omitempty"`
	PriorityClass    string          `json:"priority_class,omitempty"`
	ImagePullSecrets []string        `json:"image_pull_secrets,omitempty"` // names, in addition to the secrets created for the run's registries
	// Labels and Annotations are added to the pods.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// PodTemplate is applied to the pod of a task, as a strategic merge patch
	// of a pod template ({"metadata": ..., "spec": ...}).
	PodTemplate json.RawMessage `json:"pod_template,omitempty"`
}

// Toleration allows pods on nodes with a matching taint.
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"` // Equal or Exists
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`  // "" means all
	Seconds  *int64 `json:"seconds,omitempty"` // of NoExecute; nil means forever
}
