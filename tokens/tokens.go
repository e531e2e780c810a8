// Package tokens knows the bearer tokens that open Drover's doors: whose they
// are, what they may do, and which executor they are held to.
package tokens

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

	"github.com/drover-run/drover/run"
)

// Authenticator knows bearer tokens. Implementations are safe for concurrent
// use.
type Authenticator interface {
	// Authenticate returns whose token it is, and whether it is anybody's.
	Authenticate(token string) (Principal, bool)
}

// hashPrefix names the kind of hash, so that another can come.
const hashPrefix = "sha256:"

// Token is what is kept of a bearer token: never the token itself.
type Token struct {
	// Name says whose it is; approvals count by it.
	Name string `yaml:"name"`
	// Hash is what the function Hash returns.
	Hash string `yaml:"hash"`
	// Scopes is what it may do.
	Scopes []Scope `yaml:"scopes"`
	// Binding holds a token of the scope executor to one executor.
	Binding `yaml:",inline"`
}

// New makes a bearer token of 256 random bits.
func New() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return "drover_" + base64.RawURLEncoding.EncodeToString(secret)
}

// Hash returns the hash of a token, as Token.Hash has it. Tokens are
// random and long, so a plain hash is enough.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// List is a fixed list of tokens.
type List struct {
	tokens []hashedToken
}

var _ Authenticator = (*List)(nil)

type hashedToken struct {
	sum       []byte
	principal Principal
}

// NewList checks the tokens and returns them as a list, or all that is wrong
// with them.
func NewList(tokens []Token) (*List, error) {
	list := &List{}
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
		if err := t.validate(t.Scopes); err != nil {
			errs = append(errs, fmt.Errorf("token %s: %w", t.Name, err))
		}
		names[t.Name] = true
		list.tokens = append(list.tokens, hashedToken{sum: sum, principal: Principal{
			Name: t.Name, Scopes: slices.Clone(t.Scopes), Binding: t.Binding,
		}})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return list, nil
}

// Check returns whose bearer token the Authorization headers of a call hold.
// Errors: unauthenticated.
func Check(auth Authenticator, headers []string) (Principal, error) {
	if len(headers) == 0 {
		return Principal{}, run.Errorf(run.CodeUnauthenticated, "this call needs a bearer token")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return Principal{}, run.Errorf(run.CodeUnauthenticated, "the Authorization header holds no bearer token")
	}
	p, ok := auth.Authenticate(strings.TrimSpace(token))
	if !ok {
		return Principal{}, run.Errorf(run.CodeUnauthenticated, "the bearer token is not known")
	}
	return p, nil
}

// Authenticate implements Authenticator. Its time does not depend on how much
// of a token is right, nor on which token it is.
func (l *List) Authenticate(token string) (Principal, bool) {
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i, known := range l.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], known.sum), i, found)
	}
	if found < 0 {
		return Principal{}, false
	}
	return l.tokens[found].principal, true
}
