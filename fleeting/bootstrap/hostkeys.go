package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// HostKeyPolicy says which hosts are believed to be who they are.
type HostKeyPolicy string

// The policies.
const (
	// AcceptNew believes a host that is seen for the first time, and from then
	// on only the same key: that of a new machine is not known to anybody.
	AcceptNew HostKeyPolicy = "accept_new"
	// KnownHosts believes what a file in the format of OpenSSH lists.
	KnownHosts HostKeyPolicy = "known_hosts"
	// Insecure believes everybody.
	Insecure HostKeyPolicy = "insecure"
)

// HostKeys says how hosts are known. The zero value is AcceptNew.
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
			return errors.New("the host key policy known_hosts needs a file")
		}
		if _, err := knownhosts.New(k.File); err != nil {
			return fmt.Errorf("reading the known hosts: %w", err)
		}
		return nil
	}
	return fmt.Errorf("there is no host key policy %q: it is accept_new, known_hosts or insecure", k.Policy)
}

// check is what a host's key is held to.
type check struct {
	callback   ssh.HostKeyCallback
	algorithms []string // nil: any. Hosts have several keys, and show the one that is asked for
}

// check returns what the host at an address is held to.
func (k HostKeys) check(address string, remembered string) (check, error) {
	switch {
	case k.Policy == Insecure:
		return check{callback: ssh.InsecureIgnoreHostKey()}, nil //nolint:gosec // wanted by name
	case k.Policy == KnownHosts:
		return knownHost(k.File, address)
	case remembered != "":
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(remembered))
		if err != nil {
			return check{}, fmt.Errorf("reading the remembered host key: %w", err)
		}
		return check{callback: sameKey(key), algorithms: algorithmsOf(key.Type())}, nil
	}
	return check{callback: func(string, net.Addr, ssh.PublicKey) error { return nil }}, nil
}

func sameKey(want ssh.PublicKey) ssh.HostKeyCallback {
	return func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if !bytes.Equal(want.Marshal(), key.Marshal()) {
			return fmt.Errorf("it shows the host key %s, and was known by %s", ssh.FingerprintSHA256(key), ssh.FingerprintSHA256(want))
		}
		return nil
	}
}

func knownHost(file, address string) (check, error) {
	callback, err := knownhosts.New(file) // each time: it may have got a new host
	if err != nil {
		return check{}, fmt.Errorf("reading the known hosts: %w", err)
	}
	// Which keys of the host are listed is in the answer to a key that is not.
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
			return fmt.Errorf("%s does not list the host, which shows the host key %s", file, ssh.FingerprintSHA256(key))
		} else if errors.As(err, &unknown) {
			return fmt.Errorf("it shows the host key %s, and %s lists others", ssh.FingerprintSHA256(key), file)
		}
		return err
	}}, nil
}

// noKey is a key that no file lists.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// algorithmsOf are the signatures by which a host proves that it has a key.
func algorithmsOf(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}
