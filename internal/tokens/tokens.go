// Package tokens implements the bearer tokens of Drover's listeners: their
// owners, their scopes, and the executor to which they are bound.
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
	"time"

	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
)

// Authenticator authenticates bearer tokens. Implementations are safe for
// concurrent use.
type Authenticator interface {
	// Authenticate returns the principal of a token, and whether the token is
	// valid. If it is known and not valid, the principal has the reason.
	Authenticate(token string) (Principal, bool)
}

// hashPrefix names the hash algorithm, so that others can be added.
const hashPrefix = "sha256:"

// Token is the entry for a bearer token: it never holds the token itself.
type Token struct {
	// Name names the owner; approvals of the same name count once.
	Name string `yaml:"name"`
	// Hash is the result of the function Hash.
	Hash string `yaml:"hash"`
	// Scopes is what the token allows, in all groups.
	Scopes []Scope `yaml:"scopes,omitempty"`
	// Roles is what the token allows instead, in some groups.
	Roles roles.Bindings `yaml:"bindings,omitempty"`
	// Expires is when the token ceases to be valid; zero is never.
	Expires time.Time `yaml:"expires,omitempty"`
	// Binding restricts a token of the scope executor to one executor.
	Binding `yaml:",inline"`
}

// New returns a new bearer token of 256 random bits.
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

// hash returns the hash of the token in its only form.
func (t Token) hash() string {
	return hashPrefix + strings.ToLower(strings.TrimPrefix(t.Hash, hashPrefix))
}

// List is a fixed list of tokens.
type List struct {
	tokens  []hashedToken
	entries []Token
	now     func() time.Time
}

var _ Authenticator = (*List)(nil)

type hashedToken struct {
	sum       []byte
	expires   time.Time
	principal Principal
}

// NewList checks the tokens and returns them as a list. The error has all
// faults.
func NewList(tokens []Token) (*List, error) {
	list := &List{entries: slices.Clone(tokens), now: time.Now}
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
		case len(t.Scopes) == 0 && len(t.Roles) == 0:
			errs = append(errs, fmt.Errorf("token %s: it has no scopes, and no bindings", t.Name))
		case len(t.Scopes) > 0 && len(t.Roles) > 0:
			errs = append(errs, fmt.Errorf("token %s: it has both scopes, which are for all groups, and bindings", t.Name))
		}
		if err := t.Roles.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("token %s: %w", t.Name, err))
		}
		for _, s := range t.Scopes {
			if !s.Valid() {
				errs = append(errs, fmt.Errorf("token %s: %q is not a scope (read, write, exec, admin, executor)", t.Name, s))
			}
		}
		if err := t.validate(t.Scopes); err != nil {
			errs = append(errs, fmt.Errorf("token %s: %w", t.Name, err))
		}
		names[t.Name] = true
		list.tokens = append(list.tokens, hashedToken{sum: sum, expires: t.Expires, principal: Principal{
			Name: t.Name, Scopes: slices.Clone(t.Scopes), Roles: slices.Clone(t.Roles), Binding: t.Binding, hash: hashPrefix + hex.EncodeToString(sum),
		}})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return list, nil
}

// Check returns the principal of the bearer token in the Authorization headers
// of a call. Errors: unauthenticated, token_expired, token_revoked.
func Check(auth Authenticator, headers []string) (Principal, error) {
	if len(headers) == 0 {
		return Principal{}, run.Errorf(run.CodeUnauthenticated, "this call needs a bearer token")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return Principal{}, run.Errorf(run.CodeUnauthenticated, "the Authorization header holds no bearer token")
	}
	p, ok := auth.Authenticate(strings.TrimSpace(token))
	if !ok && p.Refusal != nil {
		return Principal{}, p.Refusal
	}
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
	return l.tokens[found].valid(l.now())
}

// AuthenticateHash is like Authenticate for the hash of a token.
func (l *List) AuthenticateHash(hash string) (Principal, bool) {
	for _, t := range l.tokens {
		if t.principal.hash == hash {
			return t.valid(l.now())
		}
	}
	return Principal{}, false
}

// valid returns the principal of a token that is known.
func (t hashedToken) valid(now time.Time) (Principal, bool) {
	if !t.expires.IsZero() && !now.Before(t.expires) {
		return Principal{
			Name: t.principal.Name, Refusal: run.Errorf(run.CodeTokenExpired, "token %s expired at %s", t.principal.Name, t.expires.UTC().Format(time.RFC3339)),
		}, false
	}
	return t.principal, true
}

// Tokens returns the entries of the list.
func (l *List) Tokens() []Token { return l.entries }
