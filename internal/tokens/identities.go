package tokens

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/run"
)

const (
	// confirmTimeout bounds the question to the provider whether a login is still valid.
	confirmTimeout = 15 * time.Second
	// confirmAgain is the time until the next question if the provider did not answer. In
	// that time one gateway asks, because many providers accept a refresh token once.
	confirmAgain = 30 * time.Second
	// sealPurpose separates the key for grants from other uses of a secret.
	sealPurpose = "drover session grant"
)

// Grant is a login at an OpenID Connect provider: see package oidc.
type Grant struct {
	Identity run.Identity
	// RefreshToken is "" if the provider issued none.
	RefreshToken string
	// IDToken names the login when the user logs out.
	IDToken string
}

// Provider is an OpenID Connect provider.
type Provider interface {
	// Principal returns an identity with the scopes that it has now. Errors: forbidden,
	// unauthenticated (it is an identity of another provider).
	Principal(id run.Identity) (Principal, error)
	// Refresh asks the provider whether a login is valid. A provider may accept the refresh
	// token of g once: as soon as it has sent another, and before anything else can fail,
	// Refresh calls rotated with it. Errors: unauthenticated (it has ended), unavailable.
	Refresh(ctx context.Context, g Grant, rotated func(refreshToken string)) (Grant, error)
}

// Confirmation is how sessions of a provider's users are confirmed.
type Confirmation struct {
	Provider Provider
	// Every is how often a session in use is confirmed.
	Every time.Duration
	// Grace is how long after a confirmation a session is valid without another one: if
	// the provider issued no refresh token, or does not answer.
	Grace time.Duration
}

// BeginIdentity begins a session with a login at the provider. Errors: forbidden,
// unavailable.
func (b *Browsers) BeginIdentity(ctx context.Context, g Grant, browser string) (Login, error) {
	p, err := b.Confirmation.Provider.Principal(g.Identity)
	if err != nil {
		return Login{}, err
	}
	secret := newSecret()
	sealed, err := seal(secret, g)
	if err != nil {
		return Login{}, err
	}
	return b.begin(ctx, secret, p, run.BrowserSession{
		Token: identityKey(g.Identity), Browser: browser, Identity: g.Identity, Sealed: sealed, Confirmed: b.now(),
	})
}

// identityKey names all sessions of one identity. It is no hash of a token.
func identityKey(id run.Identity) string {
	sum := sha256.Sum256([]byte(id.Issuer + "\x00" + id.Subject))
	return "oidc:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// identity returns the principal of the session of a provider's user, and confirms the
// session if that is due.
func (b *Browsers) identity(ctx context.Context, secret string, s run.BrowserSession) (Principal, run.BrowserSession, error) {
	c := b.Confirmation
	if c.Provider == nil {
		return Principal{}, s, run.Errorf(run.CodeUnauthenticated, "this gateway does not accept the provider of the session any more: log in again")
	}
	var unanswered error
	if now := b.now(); now.Sub(s.Confirmed) >= c.Every && now.After(s.ConfirmAfter) {
		// Concurrent requests of one browser wait for the same answer.
		v, err, _ := b.confirming.Do(s.Hash, func() (any, error) { return b.confirm(context.WithoutCancel(ctx), secret, s) })
		confirmed, _ := v.(run.BrowserSession)
		switch {
		case err == nil:
			s = confirmed
		case run.CodeOf(err) == run.CodeUnauthenticated:
			return Principal{}, s, err
		default:
			unanswered = err
		}
	}
	if b.now().Sub(s.Confirmed) > c.Grace {
		if unanswered == nil {
			unanswered = run.Errorf(run.CodeUnavailable, "the identity provider has not confirmed the login since %s: try again", s.Confirmed.UTC().Format(time.RFC3339))
		}
		return Principal{}, s, unanswered
	}
	p, err := c.Provider.Principal(s.Identity)
	return p, s, err
}

// confirm asks the provider whether a session is still valid, and stores the answer.
// If the process ends between the two, the provider may refuse the stored refresh token
// later: then the user logs in again.
func (b *Browsers) confirm(ctx context.Context, secret string, s run.BrowserSession) (run.BrowserSession, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, confirmTimeout, fmt.Errorf("the provider did not answer within %s", confirmTimeout))
	defer cancel()
	g, err := unseal(secret, s)
	if err != nil {
		return s, run.Errorf(run.CodeUnauthenticated, "the session is damaged: log in again")
	}
	if g.RefreshToken == "" {
		if b.now().Sub(s.Confirmed) <= b.Confirmation.Grace {
			return s, nil
		}
		return s, b.endUnconfirmed(ctx, s, run.Errorf(run.CodeUnauthenticated, "the session has expired: log in again"))
	}
	again := b.now().Add(confirmAgain)
	claimed, err := b.store.ClaimBrowserConfirmation(ctx, s.Hash, s.ConfirmAfter, again)
	if err != nil {
		return s, err
	}
	b.forgetCached(s.Hash)
	if !claimed { // another gateway asks
		return b.session(ctx, s.Hash)
	}
	g, err = b.Confirmation.Provider.Refresh(ctx, g, func(refreshToken string) { b.keepRotated(ctx, secret, s, g, refreshToken, again) })
	switch {
	case run.CodeOf(err) == run.CodeUnauthenticated:
		return s, b.endUnconfirmed(ctx, s, err)
	case err != nil:
		b.logger.WarnContext(ctx, "failed to confirm the session of a browser", "subject", s.Name, "error", err)
		return s, err
	}
	if s.Sealed, err = seal(secret, g); err != nil {
		return s, err
	}
	s.Identity, s.Confirmed, s.ConfirmAfter = g.Identity, b.now(), again
	if err := b.store.ConfirmBrowserSession(ctx, s); err != nil {
		return s, err
	}
	b.forgetCached(s.Hash)
	return s, nil
}

// keepRotated stores the refresh token that replaces that of a session, which is not
// confirmed yet. After an error, the confirmation stores it.
func (b *Browsers) keepRotated(ctx context.Context, secret string, s run.BrowserSession, g Grant, refreshToken string, again time.Time) {
	g.RefreshToken = refreshToken
	var err error
	if s.Sealed, err = seal(secret, g); err == nil {
		s.ConfirmAfter = again
		err = b.store.ConfirmBrowserSession(ctx, s)
	}
	if err != nil {
		b.logger.WarnContext(ctx, "failed to store the refresh token of a session", "subject", s.Name, "error", err)
	}
	b.forgetCached(s.Hash)
}

// endUnconfirmed ends a session, and returns the reason.
func (b *Browsers) endUnconfirmed(ctx context.Context, s run.BrowserSession, reason error) error {
	if err := b.store.EndBrowserSession(ctx, s.Hash); err != nil {
		return err
	}
	b.forgetCached(s.Hash)
	b.logger.InfoContext(ctx, "session of a browser ended", "subject", s.Name, "reason", reason)
	return reason
}

// forgetCached makes the next request read a session.
func (b *Browsers) forgetCached(hash string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.cached, hash)
}

// sealed is a grant without its identity, which is stored in the clear.
type sealed struct {
	RefreshToken string `json:"refresh_token,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
}

// seal encrypts the tokens of a grant with the secret of its session, which only the
// browser has: the records alone do not reveal them.
func seal(secret string, g Grant) (string, error) {
	text, err := json.Marshal(sealed{RefreshToken: g.RefreshToken, IDToken: g.IDToken}) //nolint:gosec // it is encrypted below
	if err != nil {
		return "", fmt.Errorf("seal the tokens of the provider: %w", err)
	}
	aead, err := sealer(secret)
	if err != nil {
		return "", fmt.Errorf("seal the tokens of the provider: %w", err)
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return base64.RawStdEncoding.EncodeToString(aead.Seal(nonce, nonce, text, nil)), nil
}

// unseal returns the grant of a session.
func unseal(secret string, s run.BrowserSession) (Grant, error) {
	data, err := base64.RawStdEncoding.DecodeString(s.Sealed)
	if err != nil {
		return Grant{}, fmt.Errorf("open the tokens of the provider: %w", err)
	}
	aead, err := sealer(secret)
	if err != nil {
		return Grant{}, fmt.Errorf("open the tokens of the provider: %w", err)
	}
	if len(data) < aead.NonceSize() {
		return Grant{}, errors.New("open the tokens of the provider: they are cut off")
	}
	text, err := aead.Open(nil, data[:aead.NonceSize()], data[aead.NonceSize():], nil)
	var v sealed
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		return Grant{}, fmt.Errorf("open the tokens of the provider: %w", err)
	}
	return Grant{Identity: s.Identity, RefreshToken: v.RefreshToken, IDToken: v.IDToken}, nil
}

func sealer(secret string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, sealPurpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
