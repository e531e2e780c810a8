package static

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// Host is one host of the list. The common connector supplies the fields that
// it omits.
type Host struct {
	Address         string            `json:"address"` // HOST or HOST:PORT
	ExternalAddress string            `json:"external_address"`
	OS              string            `json:"os"`
	Arch            string            `json:"arch"`
	Protocol        provider.Protocol `json:"protocol"`
	Username        string            `json:"username"`
	Password        string            `json:"password"`
	KeyPath         string            `json:"key_path"`
}

// dialTimeout is how long a host may take to accept a connection.
const dialTimeout = 5 * time.Second

// connect returns the connect info of the host, with the defaults of the common
// connector.
func (h Host) connect(common provider.ConnectorConfig) (provider.ConnectInfo, error) {
	info := provider.ConnectInfo{ConnectorConfig: common, InternalAddr: h.Address, ExternalAddr: h.ExternalAddress}
	for _, v := range []struct{ to, of *string }{
		{&info.OS, &h.OS},
		{&info.Arch, &h.Arch},
		{&info.Username, &h.Username},
		{&info.Password, &h.Password},
		{(*string)(&info.Protocol), (*string)(&h.Protocol)},
	} {
		if *v.of != "" {
			*v.to = *v.of
		}
	}
	if info.ExternalAddr == "" {
		info.ExternalAddr = h.Address
	}
	if info.Protocol == "" {
		info.Protocol = provider.ProtocolSSH
	}
	if h.KeyPath != "" {
		key, err := os.ReadFile(h.KeyPath)
		if err != nil {
			return info, fmt.Errorf("read the key of %s: %w", h.Address, err)
		}
		info.Key = key
	}
	// The host's credentials are static: the plugin uploads no keys.
	info.UseStaticCredentials = info.Username != "" && (info.Password != "" || len(info.Key) > 0)
	return info, nil
}

// checkReachable checks that the host accepts connections.
func (h Host) checkReachable(ctx context.Context, common provider.ConnectorConfig) error {
	info, err := h.connect(common)
	if err != nil {
		return err
	}
	address := h.Address
	if _, _, err := net.SplitHostPort(address); err != nil {
		port := info.ProtocolPort
		if port == 0 {
			port = provider.DefaultProtocolPorts[info.Protocol]
		}
		address = net.JoinHostPort(address, strconv.Itoa(port))
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%w: no connection: %w", provider.ErrInstanceUnhealthy, err)
	}
	return conn.Close()
}

func checkHosts(hosts []Host) error {
	if len(hosts) == 0 {
		return errors.New("hosts: at least one is required")
	}
	seen := map[string]bool{}
	for _, h := range hosts {
		if h.Address == "" {
			return errors.New("hosts: a host has no address")
		}
		if seen[h.Address] {
			return fmt.Errorf("hosts: %s is listed twice", h.Address)
		}
		seen[h.Address] = true
		if h.Protocol != "" {
			if err := h.Protocol.Valid(); err != nil {
				return fmt.Errorf("hosts: %s: %w", h.Address, err)
			}
		}
	}
	return nil
}
