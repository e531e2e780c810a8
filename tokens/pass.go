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
	// passPrefix is the prefix of a short-lived token; no listed token has it.
	passPrefix = "drover_pass_"
	// passes is the purpose of the proof of a short-lived token.
	passes = "pass"
)

// pass is the content of a short-lived token, without its proof.
type pass struct {
	Executor string `json:"executor"`
	Pool     string `json:"pool"`
	Set      string `json:"set,omitempty"`
	Fleet    string `json:"fleet,omitempty"` // "": no fleet, or a token of a version without this field
	Instance string `json:"instance,omitempty"`
	Made     int64  `json:"made"` // Unix seconds
	Expires  int64  `json:"expires"`
}

// Pass returns a short-lived bearer token that is bound to one executor and
// valid for lifetime from now on. It is in no list: the keys alone prove that
// it is genuine, so an issuer of tokens need not register them with gateways
// and relays.
func (k *Keys) Pass(b Binding, now time.Time, life time.Duration) (string, error) {
	if b.Executor == "" || b.Pool == "" || strings.HasSuffix(b.Executor, wildcard) {
		return "", errors.New("a short-lived token is bound to one executor and to its pool")
	}
	if (b.Fleet == "") != (b.Instance == "") {
		return "", errors.New("a short-lived token of a fleet is bound to one instance of it")
	}
	if err := b.validate([]Scope{Executor}); err != nil {
		return "", fmt.Errorf("issue a short-lived token: %w", err)
	}
	if life < time.Second {
		return "", errors.New("a short-lived token is valid for at least a second")
	}
	text, err := json.Marshal(pass{
		Executor: b.Executor, Pool: b.Pool, Set: b.Set, Fleet: b.Fleet, Instance: b.Instance, Made: now.Unix(), Expires: now.Add(life).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("issue a short-lived token: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return passPrefix + encode(text) + "." + encode(proof(k.keys[0], passes, string(text))), nil
}

// PassAuthenticator accepts short-lived tokens, and the tokens that another
// Authenticator accepts.
type PassAuthenticator struct {
	keys *Keys
	next Authenticator
	now  func() time.Time
}

var _ Authenticator = (*PassAuthenticator)(nil)

// WithPasses returns an Authenticator that accepts the short-lived tokens that
// the keys signed, and the tokens that next accepts.
func WithPasses(keys *Keys, next Authenticator) *PassAuthenticator {
	return &PassAuthenticator{keys: keys, next: next, now: time.Now}
}

// Authenticate implements Authenticator.
func (a *PassAuthenticator) Authenticate(token string) (Principal, bool) {
	rest, ok := strings.CutPrefix(token, passPrefix)
	if !ok {
		return a.next.Authenticate(token)
	}
	body, mac, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(body)
	given, macErr := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || macErr != nil || !a.keys.proves(given, passes, string(text)) {
		return Principal{}, false
	}
	var p pass
	if err := json.Unmarshal(text, &p); err != nil { // written by a newer version
		return Principal{}, false
	}
	made, expires := time.Unix(p.Made, 0), time.Unix(p.Expires, 0)
	if !a.now().Before(expires) || p.Executor == "" || p.Pool == "" {
		return Principal{}, false
	}
	return Principal{
		Name: p.Executor, Scopes: []Scope{Executor}, Binding: Binding{
			Executor: p.Executor, Pool: p.Pool, Set: p.Set, Fleet: p.Fleet, Instance: p.Instance,
		},
		Made: made, Expires: expires,
	}, true
}
