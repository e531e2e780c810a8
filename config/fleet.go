package config

import "time"

// FleetBootstrap says how instances become executors over SSH.
type FleetBootstrap struct {
	// GatewayURL and Relay are how instances reach Drover; without a relay they
	// reach Temporal as the fleet worker does, and are trusted like operators.
	GatewayURL      string      `koanf:"gateway_url" yaml:"gateway_url"`
	InsecureGateway bool        `koanf:"insecure_gateway" yaml:"insecure_gateway"`
	Relay           RelayClient `koanf:"relay" yaml:"relay"`
	// KeyFile holds the keys of the relays, by which credentials of instances
	// are made; "": no instance is made an executor.
	KeyFile string `koanf:"key_file" yaml:"key_file"`
	// Life is how long a credential is good that is not prolonged.
	Life time.Duration `koanf:"life" yaml:"life"`
	// BinariesDir has the workers for other systems; "": there are none.
	BinariesDir string `koanf:"binaries_dir" yaml:"binaries_dir"`
	// KnownHostsFile lists the hosts of fleets whose host_key_policy is
	// known_hosts.
	KnownHostsFile string `koanf:"known_hosts_file" yaml:"known_hosts_file"`
	// Dir is where the instances keep everything; "": the usual place.
	Dir             string        `koanf:"dir" yaml:"dir"`
	Sudo            bool          `koanf:"sudo" yaml:"sudo"`
	ReadyTimeout    time.Duration `koanf:"ready_timeout" yaml:"ready_timeout"`
	RegisterTimeout time.Duration `koanf:"register_timeout" yaml:"register_timeout"`
	// RemoveAfter is how long an instance may be out of contact.
	RemoveAfter time.Duration `koanf:"remove_after" yaml:"remove_after"`
}

func (b FleetBootstrap) validate(v *validator) {
	v.address("fleet.bootstrap.relay.address", b.Relay.Address)
	for _, d := range []struct {
		path  string
		value time.Duration
	}{
		{"fleet.bootstrap.life", b.Life},
		{"fleet.bootstrap.ready_timeout", b.ReadyTimeout},
		{"fleet.bootstrap.register_timeout", b.RegisterTimeout},
	} {
		if d.value < time.Second {
			v.fail(d.path, "it must be at least 1s")
		}
	}
	if b.RemoveAfter < 0 {
		v.fail("fleet.bootstrap.remove_after", "it must not be negative")
	}
}

func (b FleetBootstrap) require(v *validator) {
	if b.KeyFile != "" {
		v.given("fleet.bootstrap.gateway_url", b.GatewayURL)
	}
}
