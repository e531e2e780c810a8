package tokens

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// shortLivedPrefix is the prefix of a short-lived token; no listed token has it.
	shortLivedPrefix = "drover_pass_"
	// shortLivedPurpose is the purpose of the proof of a short-lived token.
	shortLivedPurpose = "pass"
)

// shortLivedToken is the content of a short-lived token, without its proof.
type shortLivedToken struct {
	Executor string `json:"executor"`
	Pool     string `json:"pool"`
	Set      string `json:"set,omitempty"`
	Fleet    string `json:"fleet,omitempty"` // "": no fleet, or a token of a version without this field
	Instance string `json:"instance,omitempty"`
	IssuedAt int64  `json:"made"` // Unix seconds
	Expires  int64  `json:"expires"`
}

// IssueShortLived returns a short-lived bearer token that is bound to one executor and
// valid for lifetime from now on. It is in no list: the keys alone prove that
// it is genuine, so an issuer of tokens need not register them with gateways
// and relays.
func (k *Keys) IssueShortLived(b Binding, now time.Time, lifetime time.Duration) (string, error) {
	if b.Executor == "" || b.Pool == "" || strings.HasSuffix(b.Executor, wildcard) {
		return "", errors.New("a short-lived token is bound to one executor and to its pool")
	}
	if (b.Fleet == "") != (b.Instance == "") {
		return "", errors.New("a short-lived token of a fleet is bound to one instance of it")
	}
	if err := b.validate([]Scope{Executor}); err != nil {
		return "", fmt.Errorf("issue a short-lived token: %w", err)
	}
	if lifetime < time.Second {
		return "", errors.New("a short-lived token is valid for at least a second")
	}
	text, err := json.Marshal(shortLivedToken{
		Executor: b.Executor, Pool: b.Pool, Set: b.Set, Fleet: b.Fleet, Instance: b.Instance, IssuedAt: now.Unix(), Expires: now.Add(lifetime).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("issue a short-lived token: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return shortLivedPrefix + encode(text) + "." + encode(proof(k.all()[0], shortLivedPurpose, string(text))), nil
}

// ShortLivedAuthenticator accepts short-lived tokens, and the tokens that another
// Authenticator accepts.
type ShortLivedAuthenticator struct {
	keys *Keys
	next Authenticator
	now  func() time.Time
}

var _ Authenticator = (*ShortLivedAuthenticator)(nil)

// WithShortLived returns an Authenticator that accepts the short-lived tokens that
// the keys signed, and the tokens that next accepts.
func WithShortLived(keys *Keys, next Authenticator) *ShortLivedAuthenticator {
	return &ShortLivedAuthenticator{keys: keys, next: next, now: time.Now}
}

// Authenticate implements Authenticator.
func (a *ShortLivedAuthenticator) Authenticate(token string) (Principal, bool) {
	rest, ok := strings.CutPrefix(token, shortLivedPrefix)
	if !ok {
		return a.next.Authenticate(token)
	}
	body, mac, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(body)
	given, macErr := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || macErr != nil || !a.keys.verifies(given, shortLivedPurpose, string(text)) {
		return Principal{}, false
	}
	var p shortLivedToken
	if err := json.Unmarshal(text, &p); err != nil { // written by a newer version
		return Principal{}, false
	}
	issuedAt, expires := time.Unix(p.IssuedAt, 0), time.Unix(p.Expires, 0)
	if !a.now().Before(expires) || p.Executor == "" || p.Pool == "" {
		return Principal{}, false
	}
	return Principal{
		Name: p.Executor, Scopes: []Scope{Executor}, Binding: Binding{
			Executor: p.Executor, Pool: p.Pool, Set: p.Set, Fleet: p.Fleet, Instance: p.Instance,
		},
		IssuedAt: issuedAt, Expires: expires,
	}, true
}
