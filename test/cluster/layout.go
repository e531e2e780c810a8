package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Names and addresses inside the cluster. They are constant, since the cluster
// has its own network namespace. Only the two ends of the link to the host
// vary.
const (
	nodeName     = "node1"
	pauseImage   = "drover.test/pause:test"
	apiPort      = 443
	serviceRange = "10.96.0.0/16"
	apiServiceIP = "10.96.0.1" // first address of serviceRange, always the API server's
	podRange     = "10.244.0.0/16"

	// kubeconfigVariable is the environment variable with the kubeconfig for
	// tests.
	kubeconfigVariable = "DROVER_TEST_KUBECONFIG"
	// registryVariable is the environment variable with the host address at
	// which a test may run a registry without TLS, reachable from the node.
	registryVariable = "DROVER_TEST_KUBERNETES_REGISTRY"
	registryPort     = 5000
)

// layout holds the paths and addresses of a cluster. The process outside the
// namespaces writes it, and the process inside reads it.
type layout struct {
	Dir     string       `json:"dir"`
	Bin     string       `json:"bin"`
	Network netip.Prefix `json:"network"` // four addresses
	CGroup  string       `json:"cgroup"`
}

// id returns a name that is unique among the clusters of the machine.
func (l layout) id() string {
	raw := l.Network.Addr().As4()
	return hex.EncodeToString(raw[2:])
}

// link returns the name of the host's end of the link.
func (l layout) link() string { return "dr" + l.id() }

// hostIP is the address of the host's end of the link, nodeIP that of the
// cluster's.
func (l layout) hostIP() netip.Addr { return l.Network.Addr().Next() }

func (l layout) nodeIP() netip.Addr { return l.hostIP().Next() }

func (l layout) server() string { return fmt.Sprintf("https://%s:%d", l.nodeIP(), apiPort) }

func (l layout) registry() string { return fmt.Sprintf("%s:%d", l.hostIP(), registryPort) }

// config, logs, lib and varLog return paths of the cluster.
func (l layout) config(name string) string { return filepath.Join(l.Dir, "config", name) }

func (l layout) logs(name string) string { return filepath.Join(l.Dir, "log", name) }

// lib and varLog are mounted at /var/lib and /var/log in the cluster.
func (l layout) lib() string { return filepath.Join(l.Dir, "lib") }

func (l layout) varLog() string { return filepath.Join(l.Dir, "log") }

func (l layout) create() error {
	for _, dir := range []string{l.Dir, l.config(""), l.varLog(), l.lib()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// Containers that run as another user than root read files below it.
	if err := os.Chmod(l.lib(), 0o755); err != nil {
		return err
	}
	content, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(l.config("layout.json"), content, 0o600)
}

func readLayout(path string) (layout, error) {
	var l layout
	content, err := os.ReadFile(path)
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(content, &l); err != nil {
		return l, fmt.Errorf("read %s: %w", path, err)
	}
	return l, nil
}

const pidFile = "pid"

func readPID(dir string) (int, error) {
	content, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil {
		return 0, fmt.Errorf("no cluster in %s: %w", dir, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}
