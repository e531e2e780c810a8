package config

import "time"

// Relay configures a relay, through which untrusted executors reach Temporal.
type Relay struct {
	Listen string `koanf:"listen" yaml:"listen"`
	// TokenFile lists the hashes of the bearer tokens of executors; it may be the
	// file of the gateway.
	TokenFile string `koanf:"token_file" yaml:"token_file"`
	// KeyFile has the keys of claim proofs, which prove which executor a task was
	// handed to. Interchangeable relays have the same file.
	KeyFile     string `koanf:"key_file" yaml:"key_file"`
	TLSCertFile string `koanf:"tls_cert_file" yaml:"tls_cert_file"`
	TLSKeyFile  string `koanf:"tls_key_file" yaml:"tls_key_file"`
	// Insecure allows an address that is not loopback without TLS: bearer tokens
	// then cross the network unencrypted.
	Insecure        bool          `koanf:"insecure" yaml:"insecure"`
	MaxPolls        int           `koanf:"max_polls" yaml:"max_polls"` // concurrent polls of one credential
	ShutdownTimeout time.Duration `koanf:"shutdown_timeout" yaml:"shutdown_timeout"`
}

// RelayClient configures the connection to a relay. The executor authenticates
// with its bearer token.
type RelayClient struct {
	Address    string `koanf:"address" yaml:"address"`         // "": connect to Temporal directly
	CAFile     string `koanf:"ca_file" yaml:"ca_file"`         // "": the certificate authorities of the host
	ServerName string `koanf:"server_name" yaml:"server_name"` // in the certificate; "": the host of the address
	// Insecure connects without TLS to an address that is not loopback.
	Insecure bool `koanf:"insecure" yaml:"insecure"`
}

// Plain reports whether the connection to the relay has no TLS: if that is
// allowed, or the address is loopback.
func (r RelayClient) Plain() bool {
	return r.Insecure || r.CAFile == "" && r.ServerName == "" && isLoopback(hostOf(r.Address))
}

func (r Relay) validate(v *validator) {
	v.address("relay.listen", r.Listen)
	if (r.TLSCertFile == "") != (r.TLSKeyFile == "") {
		v.fail("relay.tls_cert_file", "requires relay.tls_key_file, and the reverse")
	}
	if r.MaxPolls < 1 {
		v.fail("relay.max_polls", "must be at least 1")
	}
	if r.ShutdownTimeout <= 0 {
		v.fail("relay.shutdown_timeout", "must be above 0")
	}
}

// require checks the settings that a relay requires.
func (r Relay) require(v *validator) {
	v.required("relay.listen", r.Listen)
	v.required("relay.token_file", r.TokenFile)
	v.required("relay.key_file", r.KeyFile)
	if r.Listen != "" && r.TLSCertFile == "" && !r.Insecure && !isLoopback(hostOf(r.Listen)) {
		v.fail("relay.listen", "%s is reachable from other hosts, and receives tokens: set relay.tls_cert_file, or use a loopback address; "+
			"relay.insecure allows it", r.Listen)
	}
}
