package config

import "time"

// Relay is the narrow door to Temporal for executors that are not trusted.
type Relay struct {
	Listen string `koanf:"listen" yaml:"listen"`
	// TokenFile lists the hashes of the bearer tokens of executors; it may be
	// the gateway's.
	TokenFile string `koanf:"token_file" yaml:"token_file"`
	// KeyFile holds the keys that prove whom tasks were handed to: all relays
	// that stand for each other have the same.
	KeyFile     string `koanf:"key_file" yaml:"key_file"`
	TLSCertFile string `koanf:"tls_cert_file" yaml:"tls_cert_file"`
	TLSKeyFile  string `koanf:"tls_key_file" yaml:"tls_key_file"`
	// Insecure allows an address that is neither TLS nor loopback: bearer
	// tokens then cross the network in the clear.
	Insecure        bool          `koanf:"insecure" yaml:"insecure"`
	MaxPolls        int           `koanf:"max_polls" yaml:"max_polls"` // that wait at a time, of one credential
	ShutdownTimeout time.Duration `koanf:"shutdown_timeout" yaml:"shutdown_timeout"`
}

// RelayClient says how to reach a relay. The executor's bearer token opens it.
type RelayClient struct {
	Address    string `koanf:"address" yaml:"address"`         // "": Temporal is reached directly
	CAFile     string `koanf:"ca_file" yaml:"ca_file"`         // "": the host's authorities
	ServerName string `koanf:"server_name" yaml:"server_name"` // in its certificate; "": the host of the address
	// Insecure speaks without TLS to an address that is not loopback.
	Insecure bool `koanf:"insecure" yaml:"insecure"`
}

// Plain reports whether the relay is spoken to without TLS: where that is
// allowed, or nobody else can listen.
func (r RelayClient) Plain() bool {
	return r.Insecure || r.CAFile == "" && r.ServerName == "" && isLoopback(hostOf(r.Address))
}

func (r Relay) validate(v *validator) {
	v.address("relay.listen", r.Listen)
	if (r.TLSCertFile == "") != (r.TLSKeyFile == "") {
		v.fail("relay.tls_cert_file", "it goes together with relay.tls_key_file")
	}
	if r.MaxPolls < 1 {
		v.fail("relay.max_polls", "it must be at least 1")
	}
	if r.ShutdownTimeout <= 0 {
		v.fail("relay.shutdown_timeout", "it must be above 0")
	}
}

// require checks what a relay cannot do without.
func (r Relay) require(v *validator) {
	v.given("relay.listen", r.Listen)
	v.given("relay.token_file", r.TokenFile)
	v.given("relay.key_file", r.KeyFile)
	if r.Listen != "" && r.TLSCertFile == "" && !r.Insecure && !isLoopback(hostOf(r.Listen)) {
		v.fail("relay.listen", "%s can be reached by others, and tokens come over it: it needs relay.tls_cert_file, or a loopback address; "+
			"relay.insecure allows it", r.Listen)
	}
}
