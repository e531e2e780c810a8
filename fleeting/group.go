package fleeting

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fleeting/wire"
)

// State is the state of an instance that a plugin reports.
type State string

// The states of an instance.
const (
	StateCreating   State = "creating"
	StateRunning    State = "running"
	StateDeleting   State = "deleting"
	StateDeleted    State = "deleted"
	StateTimeout    State = "timeout"
	StateSuspending State = "suspending"
	StateSuspended  State = "suspended"
	StateResuming   State = "resuming"
)

// CapabilitySuspendResume means that the plugin supports Suspend and Resume.
const CapabilitySuspendResume = "suspend_resume"

// Instance is one machine of a group.
type Instance struct {
	ID    string `json:"id"`
	State State  `json:"state"`
}

// Info is the plugin's description of its group, which Init returns.
type Info struct {
	ID           string   `json:"id"`       // of the group, such as hetzner/fsn1/g1
	MaxSize      uint32   `json:"max_size"` // 4294967295: no limit but that of the cloud
	Version      string   `json:"version"`
	BuildInfo    string   `json:"build_info,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
}

// Can reports whether the plugin has a capability.
func (i Info) Can(capability string) bool { return slices.Contains(i.Capabilities, capability) }

// Connector holds the settings for connections to instances.
type Connector struct {
	OS                   string        `json:"os,omitempty"`
	Arch                 string        `json:"arch,omitempty"`
	Protocol             string        `json:"protocol,omitempty"` // ssh, winrm or winrm+https
	ProtocolPort         int           `json:"protocol_port,omitempty"`
	Username             string        `json:"username,omitempty"`
	Password             string        `json:"password,omitempty"`
	Key                  []byte        `json:"key,omitempty"` // PEM
	UseStaticCredentials bool          `json:"use_static_credentials,omitempty"`
	Keepalive            time.Duration `json:"keepalive,omitempty"` // 0: 30 s
	Timeout              time.Duration `json:"timeout,omitempty"`   // 0: 10 min
}

// ConnectInfo describes how to connect to one instance.
type ConnectInfo struct {
	Connector
	ID           string    `json:"id"`
	ExternalAddr string    `json:"external_addr,omitempty"`
	InternalAddr string    `json:"internal_addr,omitempty"`
	Expires      time.Time `json:"expires,omitzero"` // zero: never
}

// The defaults of GitLab's fleeting hosts.
const (
	defaultKeepalive = 30 * time.Second
	defaultTimeout   = 10 * time.Minute
)

// withDefaults checks a configuration and sets the defaults that plugins
// expect.
func (c Connector) withDefaults() (Connector, error) {
	switch c.Protocol {
	case "", "ssh", "winrm", "winrm+https":
	default:
		return c, fmt.Errorf("connector protocol %q: must be ssh, winrm or winrm+https", c.Protocol)
	}
	if c.UseStaticCredentials && c.Username == "" {
		return c, fmt.Errorf("static credentials require a username")
	}
	if c.Keepalive == 0 {
		c.Keepalive = defaultKeepalive
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	return c, nil
}

func (c Connector) wire() *wire.ConnectorConfig {
	return &wire.ConnectorConfig{
		Os: c.OS, Arch: c.Arch, Protocol: c.Protocol, ProtocolPort: int64(c.ProtocolPort), Username: c.Username, Password: c.Password,
		Key: c.Key, UseStaticCredentials: c.UseStaticCredentials, Keepalive: int64(c.Keepalive), Timeout: int64(c.Timeout),
	}
}

func connectorOf(c *wire.ConnectorConfig) Connector {
	return Connector{
		OS: c.GetOs(), Arch: c.GetArch(), Protocol: c.GetProtocol(), ProtocolPort: int(c.GetProtocolPort()), Username: c.GetUsername(),
		Password: c.GetPassword(), Key: c.GetKey(), UseStaticCredentials: c.GetUseStaticCredentials(),
		Keepalive: time.Duration(c.GetKeepalive()), Timeout: time.Duration(c.GetTimeout()),
	}
}

func connectInfoOf(id string, r *wire.ConnectInfoResponse) ConnectInfo {
	info := ConnectInfo{Connector: connectorOf(r.GetConnector()), ID: id, ExternalAddr: r.GetExternalAddr(), InternalAddr: r.GetInternalAddr()}
	if r.GetExpires() > 0 {
		info.Expires = time.Unix(r.GetExpires(), 0).UTC()
	}
	return info
}
