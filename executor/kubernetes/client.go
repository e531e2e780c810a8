package kubernetes

import (
	"errors"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-run/drover/run"
)

// namespaceFile tells a pod its own namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// callLimit bounds one call to the API server: one that takes longer is taken
// for lost.
const callLimit = 15 * time.Second

// Place says which cluster and namespace. The zero value is the cluster that
// the process runs in, else what kubectl would use.
type Place struct {
	Kubeconfig string // a file; "": as kubectl finds it
	Context    string // of the kubeconfig; "": its current one
	Namespace  string // "": that of the pod that the process runs in, or of the context
}

// Connect returns how to reach the place, and its namespace. It calls nobody.
// The error has CodeInvalid.
func Connect(place Place) (*rest.Config, string, error) {
	if place.Kubeconfig == "" && place.Context == "" {
		config, err := rest.InClusterConfig()
		switch {
		case err == nil:
			return config, inClusterNamespace(place.Namespace), nil
		case !errors.Is(err, rest.ErrNotInCluster):
			return nil, "", run.Errorf(run.CodeInvalid, "reading the pod's service account: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = place.Kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: place.Context})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", run.Errorf(run.CodeInvalid, "reading the kubeconfig: %w", err)
	}
	namespace := place.Namespace
	if namespace == "" {
		if namespace, _, err = loaded.Namespace(); err != nil {
			return nil, "", run.Errorf(run.CodeInvalid, "reading the namespace of the kubeconfig: %w", err)
		}
	}
	return config, namespace, nil
}

func inClusterNamespace(wanted string) string {
	if wanted != "" {
		return wanted
	}
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "default"
	}
	return strings.TrimSpace(string(text))
}

// tuned returns the configuration for a process with many tasks: the server
// itself says when it has too much, by its priorities.
func tuned(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = "drover-executor"
	config.Timeout = 0 // each call has its own; streams have none
	return config
}
