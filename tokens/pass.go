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
	// passPrefix begins a pass, so that no listed token is taken for one.
	passPrefix = "drover_pass_"
	// passes is what a proof of a pass is of.
	passes = "pass"
)

// pass is what a pass says, besides its proof.
type pass struct {
	Executor string `json:"executor"`
	Pool     string `json:"pool"`
	Set      string `json:"set,omitempty"`
	Fleet    string `json:"fleet,omitempty"` // "": of no fleet, or made before passes said it
	Instance string `json:"instance,omitempty"`
	Made     int64  `json:"made"` // Unix seconds
	Expires  int64  `json:"expires"`
}

// Pass returns a bearer token that is bound and good from now for a time. It is
// in no list: the keys alone prove that it was made, so whoever makes executors
// of machines need not tell gateways and relays of each.
func (k *Keys) Pass(b Binding, now time.Time, life time.Duration) (string, error) {
	if b.Executor == "" || b.Pool == "" || strings.HasSuffix(b.Executor, wildcard) {
		return "", errors.New("a pass is bound to one executor and to its pool")
	}
	if (b.Fleet == "") != (b.Instance == "") {
		return "", errors.New("a pass of a fleet is bound to one instance of it")
	}
	if err := b.validate([]Scope{Executor}); err != nil {
		return "", fmt.Errorf("making a pass: %w", err)
	}
	if life < time.Second {
		return "", errors.New("a pass is good for a second at least")
	}
	text, err := json.Marshal(pass{
		Executor: b.Executor, Pool: b.Pool, Set: b.Set, Fleet: b.Fleet, Instance: b.Instance, Made: now.Unix(), Expires: now.Add(life).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("making a pass: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return passPrefix + encode(text) + "." + encode(proof(k.keys[0], passes, string(text))), nil
}

// PassAuthenticator knows passes, and what another Authenticator knows.
type PassAuthenticator struct {
	keys *Keys
	next Authenticator
	now  func() time.Time
}

var _ Authenticator = (*PassAuthenticator)(nil)

// WithPasses returns an Authenticator that knows the passes made by the keys,
// and the tokens that next knows.
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
	if err := json.Unmarshal(text, &p); err != nil { // made by a version to come
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
