// Package keyring encrypts small values at rest. Its keys have ids, so that
// they can be replaced.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

const (
	// scheme is the prefix of sealed values. It distinguishes them from values
	// stored in the clear, and allows for other formats later.
	scheme    = "drover-sealed:1:"
	keyLength = 32 // AES-256
	maxID     = 32
)

// ErrUnknownKey says that a value was sealed with a key that the ring lacks.
var ErrUnknownKey = errors.New("it was sealed with a key that is not in the keyring")

// errAltered says that a value does not match its label, its key, or its
// authentication tag.
var errAltered = errors.New("it was altered, or belongs elsewhere, or the key of that id is another")

// Ring seals with its first key and opens with all. It is safe for concurrent
// use. The zero Ring, which has no key, leaves values in the clear.
type Ring struct {
	first string // id
	keys  map[string]cipher.AEAD
	// source, if it is not nil, has the keys instead.
	source Source
}

// Source has rings that may be replaced, such as those of a file.
type Source interface {
	// Current returns the ring in use.
	Current() *Ring
	// Refresh returns the newest ring. It is called if a value was sealed with a key
	// that the current one lacks: another process may know of the key earlier.
	Refresh() *Ring
}

// Following returns a ring with the current keys of a source.
func Following(s Source) *Ring { return &Ring{source: s} }

// latest returns the ring that has the keys; nil if there is none.
func (r *Ring) latest() *Ring {
	if r != nil && r.source != nil {
		return r.source.Current()
	}
	return r
}

// NewKey returns a line with a random key, in the format of Parse.
func NewKey(id string) (string, error) {
	if !validID(id) {
		return "", fmt.Errorf("%q is not a key id: it has 1 to %d of a-z, A-Z, 0-9, '_' and '-'", id, maxID)
	}
	key := make([]byte, keyLength)
	_, _ = rand.Read(key) // it never fails
	return id + ":" + base64.StdEncoding.EncodeToString(key), nil
}

// Parse reads keys, one on each line: an id, a colon and 32 bytes in base64.
// The first key seals. Empty lines and lines that begin with # are ignored.
// Errors never show a key.
func Parse(text string) (*Ring, error) {
	r := &Ring{keys: map[string]cipher.AEAD{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, encoded, ok := strings.Cut(line, ":")
		if !ok || !validID(id) {
			return nil, fmt.Errorf("line %d does not begin with the id of a key and a colon", n)
		}
		if r.keys[id] != nil {
			return nil, fmt.Errorf("line %d: there is a key %s already", n, id)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) != keyLength {
			return nil, fmt.Errorf("line %d: the key %s is not %d bytes in base64", n, id, keyLength)
		}
		if r.keys[id], err = newAEAD(key); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if r.first == "" {
			r.first = id
		}
	}
	if r.first == "" {
		return nil, errors.New("there is no key")
	}
	return r, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Seal encrypts a value. The label identifies the location of the value: it
// opens under no other label. A ring without keys returns the value unchanged.
func (r *Ring) Seal(label, value string) string {
	if r = r.latest(); r == nil || r.first == "" {
		return value
	}
	_, sealed := r.Encrypt(label, []byte(value))
	return r.Current() + base64.RawStdEncoding.EncodeToString(sealed)
}

// Encrypt encrypts data with the first key, which must exist, and returns the
// id of the key.
func (r *Ring) Encrypt(label string, data []byte) (id string, sealed []byte) {
	r = r.latest()
	return r.first, r.keys[r.first].Seal(nil, nil, data, []byte(label)) //nolint:gosec // it makes the nonce itself
}

// Decrypt decrypts data that the key of that id encrypted under the label.
// Errors are those of Open.
func (r *Ring) Decrypt(id, label string, sealed []byte) ([]byte, error) {
	var key cipher.AEAD
	if now := r.latest(); now != nil {
		key = now.keys[id]
	}
	if key == nil && r != nil && r.source != nil {
		key = r.source.Refresh().keys[id]
	}
	if key == nil {
		return nil, fmt.Errorf("key %.40q: %w", id, ErrUnknownKey)
	}
	data, err := key.Open(nil, nil, sealed, []byte(label))
	if err != nil {
		return nil, errAltered
	}
	return data, nil
}

// Open returns a value that was sealed under the label; a value that was stored
// in the clear is returned unchanged. Errors, which show nothing of the value:
// ErrUnknownKey, or that the value was altered.
func (r *Ring) Open(label, stored string) (string, error) {
	rest, ok := strings.CutPrefix(stored, scheme)
	if !ok {
		return stored, nil
	}
	id, encoded, _ := strings.Cut(rest, ":")
	sealed, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		sealed = nil
	}
	value, err := r.Decrypt(id, label, sealed)
	return string(value), err
}

// Current returns the prefix of all values that the first key sealed; "" if
// there is no key.
func (r *Ring) Current() string {
	if r = r.latest(); r == nil || r.first == "" {
		return ""
	}
	return scheme + r.first + ":"
}

func validID(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}
