package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Authenticator knows the bearer tokens that open the gateway. Implementations
// are safe for concurrent use.
type Authenticator interface {
	// Authenticate returns whose token it is, and whether it is anybody's.
	Authenticate(token string) (Principal, bool)
}

// hashPrefix names the kind of hash, so that another can come.
const hashPrefix = "sha256:"

// Token is what the gateway keeps of a bearer token: never the token itself.
type Token struct {
	// Name says whose it is; approvals count by it.
	Name string `yaml:"name"`
	// Hash is what HashToken returns.
	Hash string `yaml:"hash"`
	// Scopes is what it may do.
	Scopes []Scope `yaml:"scopes"`
}

// NewToken makes a bearer token of 256 random bits.
func NewToken() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return "drover_" + base64.RawURLEncoding.EncodeToString(secret)
}

// HashToken returns the hash of a token, as Token.Hash has it. Tokens are
// random and long, so a plain hash is enough.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// Tokens is a fixed set of tokens.
type Tokens struct {
	tokens []hashedToken
}

var _ Authenticator = (*Tokens)(nil)

type hashedToken struct {
	sum       []byte
	principal Principal
}

// NewTokens checks the tokens and returns them as a set, or all that is wrong
// with them.
func NewTokens(tokens []Token) (*Tokens, error) {
	set := &Tokens{}
	var errs []error
	names := make(map[string]bool)
	for i, t := range tokens {
		sum, err := hex.DecodeString(strings.TrimPrefix(t.Hash, hashPrefix))
		switch {
		case t.Name == "":
			errs = append(errs, fmt.Errorf("token %d: it has no name", i))
		case names[t.Name]:
			errs = append(errs, fmt.Errorf("token %s: the name is used twice", t.Name))
		case err != nil || len(sum) != sha256.Size:
			errs = append(errs, fmt.Errorf("token %s: the hash is not %s and 64 hexadecimal digits", t.Name, hashPrefix))
		case len(t.Scopes) == 0:
			errs = append(errs, fmt.Errorf("token %s: it has no scopes", t.Name))
		}
		for _, s := range t.Scopes {
			if !s.Valid() {
				errs = append(errs, fmt.Errorf("token %s: %q is not a scope (read, write, admin, executor)", t.Name, s))
			}
		}
		names[t.Name] = true
		set.tokens = append(set.tokens, hashedToken{sum: sum, principal: Principal{Name: t.Name, Scopes: slices.Clone(t.Scopes)}})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return set, nil
}

// Authenticate implements Authenticator. Its time does not depend on how much
// of a token is right, nor on which token it is.
func (t *Tokens) Authenticate(token string) (Principal, bool) {
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i, known := range t.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], known.sum), i, found)
	}
	if found < 0 {
		return Principal{}, false
	}
	return t.tokens[found].principal, true
}
