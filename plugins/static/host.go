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

// Host is one of the list. What it leaves out is the connector's.
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

// dialPatience is how long a host may take to accept a connection.
const dialPatience = 5 * time.Second

// connect returns how the host is connected to, of a connector that is common
// to all.
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
			return info, fmt.Errorf("reading the key of %s: %w", h.Address, err)
		}
		info.Key = key
	}
	// Nobody makes others.
	info.UseStaticCredentials = info.Username != "" && (info.Password != "" || len(info.Key) > 0)
	return info, nil
}

// reach finds out whether the host accepts connections.
func (h Host) reach(ctx context.Context, common provider.ConnectorConfig) error {
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
	dialer := net.Dialer{Timeout: dialPatience}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%w: it does not answer: %w", provider.ErrInstanceUnhealthy, err)
	}
	return conn.Close() //nolint:wrapcheck // of a connection that nothing was written to
}

func checkHosts(hosts []Host) error {
	if len(hosts) == 0 {
		return errors.New("hosts: which ones are to be given out?")
	}
	seen := map[string]bool{}
	for _, h := range hosts {
		if h.Address == "" {
			return errors.New("hosts: one has no address")
		}
		if seen[h.Address] {
			return fmt.Errorf("hosts: %s is there twice", h.Address)
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
