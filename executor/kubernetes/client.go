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

// namespaceFile contains the namespace of the pod that the process runs in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// callTimeout bounds one call to the API server. The driver assumes that a call
// that takes longer is lost.
const callTimeout = 15 * time.Second

// Location names a cluster and a namespace. The zero value is the cluster that the
// process runs in, or else the cluster that kubectl would use.
type Location struct {
	Kubeconfig string // path; "" means the file that kubectl uses
	Context    string // of the kubeconfig; "" means the current context
	Namespace  string // "" means the namespace of the process's pod, or of the context
}

// Connect returns the client configuration and the namespace of a location. It
// makes no network calls. The error has CodeInvalid.
func Connect(position Location) (*rest.Config, string, error) {
	if position.Kubeconfig == "" && position.Context == "" {
		config, err := rest.InClusterConfig()
		switch {
		case err == nil:
			return config, inClusterNamespace(position.Namespace), nil
		case !errors.Is(err, rest.ErrNotInCluster):
			return nil, "", run.Errorf(run.CodeInvalid, "read the pod's service account: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = position.Kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: position.Context})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", run.Errorf(run.CodeInvalid, "read the kubeconfig: %w", err)
	}
	namespace := position.Namespace
	if namespace == "" {
		if namespace, _, err = loaded.Namespace(); err != nil {
			return nil, "", run.Errorf(run.CodeInvalid, "read the namespace of the kubeconfig: %w", err)
		}
	}
	return config, namespace, nil
}

func inClusterNamespace(desired string) string {
	if desired != "" {
		return desired
	}
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "default"
	}
	return strings.TrimSpace(string(text))
}

// TuneConfig returns the configuration for a process with many tasks. It has no
// client-side rate limit: the server limits requests by its priorities.
func TuneConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = "drover-executor"
	config.Timeout = 0 // each call has its own; streams have none
	return config
}
