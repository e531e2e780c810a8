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

// Names and addresses inside the cluster. They may be constant, for it has a
// network of its own; only the two ends of the link to the host vary.
const (
	nodeName     = "node1"
	pauseImage   = "drover.test/pause:test"
	apiPort      = 443
	serviceRange = "10.96.0.0/16"
	apiServiceIP = "10.96.0.1" // the first address of serviceRange, always the API server's
	podRange     = "10.244.0.0/16"

	// kubeconfigVariable is how tests are told of the cluster.
	kubeconfigVariable = "DROVER_TEST_KUBECONFIG"
	// registryVariable tells tests at which address of the host's a registry
	// without TLS may listen for the node to pull from.
	registryVariable = "DROVER_TEST_KUBERNETES_REGISTRY"
	registryPort     = 5000
)

// layout says where the files of a cluster lie and how it is addressed. The
// part outside of the namespaces makes it, the part inside reads it.
type layout struct {
	Dir     string       `json:"dir"`
	Bin     string       `json:"bin"`
	Network netip.Prefix `json:"network"` // of four addresses
	CGroup  string       `json:"cgroup"`
}

// id tells this cluster from others of the machine.
func (l layout) id() string {
	raw := l.Network.Addr().As4()
	return hex.EncodeToString(raw[2:])
}

// link is the name of the host's end of the link.
func (l layout) link() string { return "dr" + l.id() }

// hostIP is the host's end of the link, nodeIP the cluster's.
func (l layout) hostIP() netip.Addr { return l.Network.Addr().Next() }

func (l layout) nodeIP() netip.Addr { return l.hostIP().Next() }

func (l layout) server() string { return fmt.Sprintf("https://%s:%d", l.nodeIP(), apiPort) }

func (l layout) registry() string { return fmt.Sprintf("%s:%d", l.hostIP(), registryPort) }

// The directories of a cluster.
func (l layout) config(name string) string { return filepath.Join(l.Dir, "config", name) }

func (l layout) logs(name string) string { return filepath.Join(l.Dir, "log", name) }

// lib and varLog take the places of /var/lib and /var/log inside.
func (l layout) lib() string { return filepath.Join(l.Dir, "lib") }

func (l layout) varLog() string { return filepath.Join(l.Dir, "log") }

func (l layout) make() error {
	for _, dir := range []string{l.Dir, l.config(""), l.varLog(), l.lib()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// Steps of containers with another user than root read below it.
	if err := os.Chmod(l.lib(), 0o755); err != nil { //nolint:gosec // a directory that must be passed through
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
		return l, fmt.Errorf("reading %s: %w", path, err)
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
