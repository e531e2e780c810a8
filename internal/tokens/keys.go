package tokens

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/drover-run/drover/internal/reload"
	"github.com/drover-run/drover/run"
)

const (
	// keyLength is the length of a key and of a proof, in bytes.
	keyLength = sha256.Size
	// wrapped is the prefix of a wrapped task token. It distinguishes it from
	// task tokens of Temporal's, and allows for other formats later.
	wrapped = "drt1"
	// The purposes of proofs, so that a proof for one is not valid for another.
	taskTokenPurpose, claimProofPurpose = "task token", "claim proof"
)

// ErrNotWrapped says that no relay handed the task token out to the owner.
var ErrNotWrapped = errors.New("the task token was not handed out by a relay, or was handed to another executor")

// Keys prove to which owner a relay handed a task. Relays that replace each
// other have the same keys, and so have the gateways. The first key signs, and
// all keys verify, so that a key can be replaced while tasks run.
type Keys struct {
	keys [][]byte
	// current, if it is not nil, returns the keys instead.
	current func() *Keys
}

// FollowKeys reads a file of keys. Changes of the file take effect within a second.
func FollowKeys(path string, logger *slog.Logger) (*Keys, error) {
	source, err := reload.Open(logger, func(files [][]byte) (*Keys, error) { return ParseKeys(string(files[0])) }, path)
	if err != nil {
		return nil, fmt.Errorf("read the keys of the relay: %w", err)
	}
	return &Keys{current: source.Current}, nil
}

// all returns the keys.
func (k *Keys) all() [][]byte {
	if k.current != nil {
		return k.current().keys
	}
	return k.keys
}

// NewKey returns a random key, in the format of ParseKeys.
func NewKey() string {
	key := make([]byte, keyLength)
	_, _ = rand.Read(key) // it never fails
	return base64.StdEncoding.EncodeToString(key)
}

// ParseKeys reads keys, one on each line. Empty lines and lines that begin with
// # are ignored. Errors never show a key.
func ParseKeys(text string) (*Keys, error) {
	k := &Keys{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != keyLength {
			return nil, fmt.Errorf("line %d is not a key: that is %d bytes in base64", n, keyLength)
		}
		k.keys = append(k.keys, key)
	}
	if len(k.keys) == 0 {
		return nil, errors.New("there is no key")
	}
	return k, nil
}

// ReadKeys reads a file of keys.
func ReadKeys(path string) (*Keys, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the keys of the relay: %w", err)
	}
	k, err := ParseKeys(string(data))
	if err != nil {
		return nil, fmt.Errorf("read the keys of the relay from %s: %w", path, err)
	}
	return k, nil
}

// Wrap returns a task token of a namespace with a proof that it was handed to
// the owner.
func (k *Keys) Wrap(namespace, owner string, token []byte) []byte {
	out := make([]byte, 0, len(wrapped)+keyLength+len(token))
	out = append(out, wrapped...)
	out = append(out, proof(k.all()[0], taskTokenPurpose, namespace, owner, string(token))...)
	return append(out, token...)
}

// Unwrap returns the task token in a wrapped one, or ErrNotWrapped.
func (k *Keys) Unwrap(namespace, owner string, from []byte) ([]byte, error) {
	rest, ok := strings.CutPrefix(string(from), wrapped)
	if !ok || len(rest) <= keyLength {
		return nil, ErrNotWrapped
	}
	given, token := []byte(rest[:keyLength]), rest[keyLength:]
	if !k.verifies(given, taskTokenPurpose, namespace, owner, token) {
		return nil, ErrNotWrapped
	}
	return []byte(token), nil
}

// ClaimProof returns the proof that a key was handed to the owner, who presents it
// to the gateway to claim the key.
func (k *Keys) ClaimProof(owner string, key run.Key) string {
	return base64.RawURLEncoding.EncodeToString(proof(k.all()[0], claimProofPurpose, owner, key.String()))
}

// CheckClaimProof reports whether a proof shows that the key was handed to the
// owner.
func (k *Keys) CheckClaimProof(owner string, key run.Key, claimProof string) bool {
	given, err := base64.RawURLEncoding.DecodeString(claimProof)
	return err == nil && k.verifies(given, claimProofPurpose, owner, key.String())
}

func (k *Keys) verifies(given []byte, parts ...string) bool {
	for _, key := range k.all() {
		if hmac.Equal(given, proof(key, parts...)) {
			return true
		}
	}
	return false
}

// proof returns a message authentication code of all parts; different lists of
// parts give different messages.
func proof(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}
