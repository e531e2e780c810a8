package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// HostKeyPolicy defines which host keys are trusted.
type HostKeyPolicy string

// The policies.
const (
	// AcceptNew trusts the first key of a host, and then only that key: the key
	// of a new machine cannot be known in advance.
	AcceptNew HostKeyPolicy = "accept_new"
	// KnownHosts trusts the keys in a file in OpenSSH's format.
	KnownHosts HostKeyPolicy = "known_hosts"
	// Insecure trusts every key.
	Insecure HostKeyPolicy = "insecure"
)

// HostKeys configures the verification of host keys. The zero value is
// AcceptNew.
type HostKeys struct {
	Policy HostKeyPolicy
	File   string // for KnownHosts
}

func (k HostKeys) validate() error {
	switch k.Policy {
	case "", AcceptNew, Insecure:
		return nil
	case KnownHosts:
		if k.File == "" {
			return errors.New("the host key policy known_hosts requires a file")
		}
		if _, err := knownhosts.New(k.File); err != nil {
			return fmt.Errorf("read the known hosts: %w", err)
		}
		return nil
	}
	return fmt.Errorf("no host key policy %q: must be accept_new, known_hosts or insecure", k.Policy)
}

// check verifies the key of a host.
type check struct {
	callback   ssh.HostKeyCallback
	algorithms []string // nil: any. A host with several keys sends one of the requested type
}

// check returns the verification for the host at an address.
func (k HostKeys) check(address string, stored string) (check, error) {
	switch {
	case k.Policy == Insecure:
		return check{callback: ssh.InsecureIgnoreHostKey()}, nil //nolint:gosec // configured explicitly
	case k.Policy == KnownHosts:
		return knownHost(k.File, address)
	case stored != "":
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(stored))
		if err != nil {
			return check{}, fmt.Errorf("parse the stored host key: %w", err)
		}
		return check{callback: sameKey(key), algorithms: algorithmsOf(key.Type())}, nil
	}
	return check{callback: func(string, net.Addr, ssh.PublicKey) error { return nil }}, nil
}

func sameKey(want ssh.PublicKey) ssh.HostKeyCallback {
	return func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if !bytes.Equal(want.Marshal(), key.Marshal()) {
			return fmt.Errorf("its host key is %s, but the stored key is %s", ssh.FingerprintSHA256(key), ssh.FingerprintSHA256(want))
		}
		return nil
	}
}

func knownHost(file, address string) (check, error) {
	callback, err := knownhosts.New(file) // each time: the file may list a new host
	if err != nil {
		return check{}, fmt.Errorf("read the known hosts: %w", err)
	}
	// The callback returns the listed keys of a host as the error for an
	// unknown key.
	var algorithms []string
	if unknown, ok := errors.AsType[*knownhosts.KeyError](callback(address, &net.TCPAddr{}, noKey{})); ok {
		for _, known := range unknown.Want {
			algorithms = append(algorithms, algorithmsOf(known.Key.Type())...)
		}
	}
	return check{algorithms: algorithms, callback: func(name string, remote net.Addr, key ssh.PublicKey) error {
		err := callback(name, remote, key)
		var unknown *knownhosts.KeyError
		if errors.As(err, &unknown) && len(unknown.Want) == 0 {
			return fmt.Errorf("%s does not list the host, whose host key is %s", file, ssh.FingerprintSHA256(key))
		} else if errors.As(err, &unknown) {
			return fmt.Errorf("its host key is %s, but %s lists others", ssh.FingerprintSHA256(key), file)
		}
		return err
	}}, nil
}

// noKey is a key that no file lists.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// algorithmsOf returns the signature algorithms for a key.
func algorithmsOf(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}
