package harness

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/testenv"
)

// Addresses of the servers and of the executor. Each network has namespaces of
// its own, so all networks use the same addresses.
const (
	networkGateway  = "10.213.0.1"
	networkTemporal = "10.213.0.2"
	networkExecutor = "10.213.0.3"
)

// Network is two network namespaces with a link between them: the servers are in
// one, an executor is in the other. A test can cut the link to each server. A cut
// silently drops packets: no peer gets an error.
type Network struct {
	t       testing.TB
	servers string
	host    string
}

// NewNetwork creates a network, which is removed at the end of the test. Without
// the right to create namespaces the test is skipped, or fails if DROVER_REQUIRE
// names namespaces.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	testenv.Use(t, "namespaces")
	if os.Geteuid() != 0 {
		testenv.Missing(t, "namespaces", "not root", "run the tests as root")
	}
	for _, tool := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil {
			testenv.Missing(t, "namespaces", err.Error(), "install iproute2 and iptables")
		}
	}
	id := "drover-" + strings.ToLower(rand.Text()[:10])
	n := &Network{t: t, servers: id + "-servers", host: id + "-host"}
	// A namespace stays when its process is killed. So does one whose test panics.
	require.NoError(t, testenv.AtExit(`ip netns delete "$1"; ip netns delete "$2"`, n.servers, n.host))
	for _, ns := range []string{n.servers, n.host} {
		if out, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
			testenv.Missing(t, "namespaces", strings.TrimSpace(string(out)), "run the tests where network namespaces can be created")
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", ns).Run() })
		n.ip(ns, "link", "set", "lo", "up")
	}
	n.ip(n.servers, "link", "add", "dev", "wire", "type", "veth", "peer", "name", "wire", "netns", n.host)
	for _, address := range []string{networkGateway, networkTemporal} {
		n.ip(n.servers, "address", "add", address+"/24", "dev", "wire")
	}
	n.ip(n.host, "address", "add", networkExecutor+"/24", "dev", "wire")
	for _, ns := range []string{n.servers, n.host} {
		n.ip(ns, "link", "set", "dev", "wire", "up")
	}
	return n
}

func (n *Network) ip(ns string, args ...string) {
	n.t.Helper()
	n.run("ip", append([]string{"-n", ns}, args...)...)
}

func (n *Network) run(name string, args ...string) {
	n.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(n.t, err, "%s %s: %s", name, strings.Join(args, " "), out)
}

// netnsCommand returns the command prefix that runs a command in a network namespace.
func netnsCommand(ns string) []string { return []string{"ip", "netns", "exec", ns} }

// Cut drops all packets between the executor's host and the given servers,
// Gateway or Temporal.
func (n *Network) Cut(servers ...Part) {
	n.t.Helper()
	for _, server := range servers {
		address := map[Part]string{Gateway: networkGateway, Temporal: networkTemporal}[server]
		for _, rule := range [][]string{{"INPUT", "-s", address}, {"OUTPUT", "-d", address}} {
			n.iptables(slices.Concat([]string{"-A"}, rule, []string{"-j", "DROP"})...)
		}
	}
}

// Restore restores the connections to all servers.
func (n *Network) Restore() {
	n.t.Helper()
	n.iptables("-F")
}

// iptables changes the packet filter of the executor's host.
func (n *Network) iptables(args ...string) {
	n.t.Helper()
	line := slices.Concat(netnsCommand(n.host), []string{"iptables", "-w"}, args)
	n.run(line[0], line[1:]...)
}

// dial connects from the servers' namespace: a socket belongs to the network
// namespace of the thread that creates it.
func (n *Network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	defer func() { _ = own.Close() }()
	there, err := os.Open("/run/netns/" + n.servers)
	if err != nil {
		return nil, fmt.Errorf("open the servers' network namespace: %w", err)
	}
	defer func() { _ = there.Close() }()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter the servers' namespace: %w", err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread() // a thread that stays locked ends with its goroutine
	}
	return conn, err
}
