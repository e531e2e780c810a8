package config

import "time"

// FleetBootstrap configures how instances become executors over SSH.
type FleetBootstrap struct {
	// GatewayURL and Relay are the addresses for instances. Without a relay,
	// instances connect to Temporal as the fleet worker does, and are trusted like
	// operators.
	GatewayURL      string      `koanf:"gateway_url" yaml:"gateway_url"`
	InsecureGateway bool        `koanf:"insecure_gateway" yaml:"insecure_gateway"`
	Relay           RelayClient `koanf:"relay" yaml:"relay"`
	// KeyFile has the keys of the relays, with which the worker creates the
	// credentials of instances; "" means that no instance is bootstrapped.
	KeyFile string `koanf:"key_file" yaml:"key_file"`
	// Lifetime is the lifetime of a credential that is not renewed.
	Lifetime time.Duration `koanf:"life" yaml:"life"`
	// BinariesDir has the executor binaries for other systems; "" means none.
	BinariesDir string `koanf:"binaries_dir" yaml:"binaries_dir"`
	// KnownHostsFile lists the hosts of fleets with host_key_policy: known_hosts.
	KnownHostsFile string `koanf:"known_hosts_file" yaml:"known_hosts_file"`
	// Dir is the directory of all files of Drover on an instance; "" means the
	// default.
	Dir             string        `koanf:"dir" yaml:"dir"`
	Sudo            bool          `koanf:"sudo" yaml:"sudo"`
	ReadyTimeout    time.Duration `koanf:"ready_timeout" yaml:"ready_timeout"`
	RegisterTimeout time.Duration `koanf:"register_timeout" yaml:"register_timeout"`
	// RemoveAfter is how long an instance may be out of contact before its executor
	// is removed.
	RemoveAfter time.Duration `koanf:"remove_after" yaml:"remove_after"`
}

func (b FleetBootstrap) validate(v *validator) {
	v.address("fleet.bootstrap.relay.address", b.Relay.Address)
	for _, d := range []struct {
		path  string
		value time.Duration
	}{
		{"fleet.bootstrap.life", b.Lifetime},
		{"fleet.bootstrap.ready_timeout", b.ReadyTimeout},
		{"fleet.bootstrap.register_timeout", b.RegisterTimeout},
	} {
		if d.value < time.Second {
			v.fail(d.path, "must be at least 1s")
		}
	}
	if b.RemoveAfter < 0 {
		v.fail("fleet.bootstrap.remove_after", "must not be negative")
	}
}

func (b FleetBootstrap) require(v *validator) {
	if b.KeyFile != "" {
		v.required("fleet.bootstrap.gateway_url", b.GatewayURL)
	}
}
