package harness

import (
	"net"
	"testing"

	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
)

// BridgeAddress returns the address at which containers of the default network
// reach this host.
func BridgeAddress(t *testing.T, cli *client.Client) string {
	t.Helper()
	bridge, err := cli.NetworkInspect(t.Context(), "bridge", network.InspectOptions{})
	require.NoError(t, err)
	link, err := net.InterfaceByName(bridge.Options["com.docker.network.bridge.name"])
	if err != nil {
		testenv.Missing(t, "docker", "its default network does not end at this host: "+err.Error(), "start a daemon on this host, with its usual bridge")
	}
	addresses, err := link.Addrs()
	require.NoError(t, err)
	for _, a := range addresses {
		if address, ok := a.(*net.IPNet); ok && address.IP.To4() != nil {
			return address.IP.String()
		}
	}
	t.Fatalf("%s has no address", link.Name)
	return ""
}
