package tokens

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

const (
	// sessionFresh is how long a session that was read is used without another read:
	// a session that was ended at another gateway is valid for at most this time.
	sessionFresh = 5 * time.Second
	// maxBrowser is the longest stored name of a browser, in bytes.
	maxBrowser = 200
	// maxCachedSessions bounds the sessions in memory.
	maxCachedSessions = 10_000
	// forgetSessions is how many sessions one transaction removes.
	forgetSessions = 500
)

// BrowserStore is the part of the records that Browsers uses.
type BrowserStore interface {
	CreateBrowserSession(ctx context.Context, s run.BrowserSession) error
	ReadBrowserSession(ctx context.Context, hash string) (run.BrowserSession, error)
	RecordBrowserUses(ctx context.Context, uses map[string]time.Time) error
	EndBrowserSession(ctx context.Context, hash string) error
	EndBrowserSessions(ctx context.Context, token string) error
	ClaimBrowserConfirmation(ctx context.Context, hash string, expected, next time.Time) (bool, error)
	ConfirmBrowserSession(ctx context.Context, s run.BrowserSession) error
	ForgetBrowserSessions(ctx context.Context, unused time.Time, n int) (int, error)
}

// Browsers are the sessions of browsers at all gateways. A session begins with a bearer
// token, has its scopes, and ends with it: when the token expires or is revoked; or with
// a login at an OpenID Connect provider, which confirms it. It also ends after Idle
// without a request, and after Max in any case.
type Browsers struct {
	Idle, Max time.Duration
	// Confirmation has the provider, if there is one.
	Confirmation Confirmation

	registry *Registry
	store    BrowserStore
	logger   *slog.Logger
	now      func() time.Time

	mu     sync.Mutex
	cached map[string]cachedSession // by hash
	uses   map[string]time.Time     // by hash: not written yet

	confirming singleflight.Group // by hash
}

type cachedSession struct {
	session run.BrowserSession
	read    time.Time
}

// NewBrowsers returns the sessions of the tokens of a registry.
func NewBrowsers(registry *Registry, store BrowserStore, idle, limit time.Duration, logger *slog.Logger) *Browsers {
	return &Browsers{
		Idle: idle, Max: limit, registry: registry, store: store, logger: logger, now: time.Now,
		cached: map[string]cachedSession{}, uses: map[string]time.Time{},
	}
}

// Login is a session that has just begun. Only the cookie of the browser has its secret.
type Login struct {
	Secret    string
	Principal Principal
	Session   run.BrowserSession
}

// Begin begins a session with a bearer token. Errors: unauthenticated, token_expired,
// token_revoked, forbidden (the token is that of an executor), unavailable.
func (b *Browsers) Begin(ctx context.Context, token, browser string) (Login, error) {
	p, err := Check(b.registry, []string{"Bearer " + token})
	if err != nil {
		return Login{}, err
	}
	return b.begin(ctx, newSecret(), p, run.BrowserSession{Token: p.hash, Browser: browser})
}

func newSecret() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// begin stores the session of a principal with a secret.
func (b *Browsers) begin(ctx context.Context, secret string, p Principal, s run.BrowserSession) (Login, error) {
	if !p.Allows(Read) {
		return Login{}, run.Errorf(run.CodeForbidden, "%s does not have the scope %s, which the web UI needs", p.Name, Read)
	}
	now := b.now()
	s.Hash, s.Name, s.Browser = Hash(secret), p.Name, truncate.String(s.Browser, maxBrowser, "")
	s.Created, s.LastUsed, s.Expires = now, now, now.Add(b.Max)
	if err := b.store.CreateBrowserSession(ctx, s); err != nil {
		return Login{}, err
	}
	b.logger.InfoContext(ctx, "session of a browser began", "subject", p.Name)
	return Login{Secret: secret, Principal: p, Session: s}, nil
}

// Authenticate returns the principal and the session of the secret of a cookie. Errors:
// unauthenticated, token_expired, token_revoked, unavailable.
func (b *Browsers) Authenticate(ctx context.Context, secret string) (Principal, run.BrowserSession, error) {
	p, s, err := b.check(ctx, secret, b.session)
	if err != nil {
		return Principal{}, s, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.uses[s.Hash] = b.now()
	return p, s, nil
}

// Recheck is like Authenticate for a request that was accepted before and lasts: it is no
// other use of the session, which may thus end as idle.
func (b *Browsers) Recheck(ctx context.Context, secret string) (Principal, error) {
	p, _, err := b.check(ctx, secret, b.session)
	return p, err
}

// Reaffirm is like Recheck, and always reads the session, which may just have been ended at
// another gateway.
func (b *Browsers) Reaffirm(ctx context.Context, secret string) (Principal, error) {
	p, _, err := b.check(ctx, secret, b.read)
	return p, err
}

// check checks a session that is read with find.
func (b *Browsers) check(
	ctx context.Context, secret string, find func(context.Context, string) (run.BrowserSession, error),
) (Principal, run.BrowserSession, error) {
	s, err := find(ctx, Hash(secret))
	if run.CodeOf(err) == run.CodeNotFound {
		return Principal{}, s, run.Errorf(run.CodeUnauthenticated, "the session has ended: log in again")
	}
	if err != nil {
		return Principal{}, s, err
	}
	now := b.now()
	if now.After(s.Expires) || now.Sub(b.lastUse(s)) > b.Idle {
		return Principal{}, s, run.Errorf(run.CodeUnauthenticated, "the session has expired: log in again")
	}
	var p Principal
	if s.Identity.Issuer != "" {
		p, s, err = b.identity(ctx, secret, s)
	} else {
		p, err = b.token(s)
	}
	return p, s, err
}

// token returns the principal of the token that began a session.
func (b *Browsers) token(s run.BrowserSession) (Principal, error) {
	p, ok := b.registry.AuthenticateHash(s.Token)
	if !ok && p.Refusal != nil {
		return Principal{}, p.Refusal
	}
	if !ok {
		return Principal{}, run.Errorf(run.CodeUnauthenticated, "the token of the session is not known any more: log in again")
	}
	return p, nil
}

// session returns a session from memory if it was read a moment ago.
func (b *Browsers) session(ctx context.Context, hash string) (run.BrowserSession, error) {
	b.mu.Lock()
	c, ok := b.cached[hash]
	b.mu.Unlock()
	if ok && b.now().Sub(c.read) < sessionFresh {
		return c.session, nil
	}
	return b.read(ctx, hash)
}

// read reads a session from the records.
func (b *Browsers) read(ctx context.Context, hash string) (run.BrowserSession, error) {
	now := b.now()
	s, err := b.store.ReadBrowserSession(ctx, hash)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		delete(b.cached, hash)
		return s, err
	}
	if len(b.cached) >= maxCachedSessions {
		clear(b.cached) // they are read again
	}
	b.cached[hash] = cachedSession{session: s, read: now}
	return s, nil
}

// lastUse returns the last use of a session, also one that was not written yet.
func (b *Browsers) lastUse(s run.BrowserSession) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.uses[s.Hash]; at.After(s.LastUsed) {
		return at
	}
	return s.LastUsed
}

// End ends the session of a secret, and with everywhere all sessions of its token or
// identity. The other gateways accept them for up to five seconds more. It returns the
// grant of a user of a provider.
func (b *Browsers) End(ctx context.Context, secret string, everywhere bool) (g Grant, err error) {
	hash := Hash(secret)
	s, err := b.session(ctx, hash)
	if run.CodeOf(err) == run.CodeNotFound {
		return g, nil
	}
	if err == nil && s.Identity.Issuer != "" {
		g, _ = unseal(secret, s) // without it the user stays logged in at the provider
	}
	if err == nil && everywhere {
		err = b.store.EndBrowserSessions(ctx, s.Token)
	} else if err == nil {
		err = b.store.EndBrowserSession(ctx, hash)
	}
	if err != nil {
		return g, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for known, c := range b.cached {
		if known == hash || everywhere && c.session.Token == s.Token {
			delete(b.cached, known)
			delete(b.uses, known)
		}
	}
	b.logger.InfoContext(ctx, "session of a browser ended", "subject", s.Name, "everywhere", everywhere)
	return g, nil
}

// Run writes the uses, and removes expired sessions, until ctx ends.
func (b *Browsers) Run(ctx context.Context) error {
	ticker := time.NewTicker(recordEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			b.record(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
		}
		b.record(ctx)
		if err := b.forget(ctx); err != nil && ctx.Err() == nil {
			b.logger.WarnContext(ctx, "failed to remove expired sessions of browsers", "error", err)
		}
	}
}

func (b *Browsers) record(ctx context.Context) {
	b.mu.Lock()
	uses := b.uses
	b.uses = map[string]time.Time{}
	b.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recordTimeout, fmt.Errorf("the records did not answer within %s", recordTimeout))
	defer cancel()
	err := b.store.RecordBrowserUses(ctx, uses)
	b.mu.Lock()
	defer b.mu.Unlock()
	for hash, at := range uses {
		if c, ok := b.cached[hash]; ok && c.session.LastUsed.Before(at) {
			c.session.LastUsed = at
			b.cached[hash] = c
		}
		if err != nil && b.uses[hash].IsZero() {
			b.uses[hash] = at // the next call writes it
		}
	}
	if err != nil {
		b.logger.WarnContext(ctx, "failed to record the uses of sessions of browsers", "error", err)
	}
}

func (b *Browsers) forget(ctx context.Context) error {
	for {
		n, err := b.store.ForgetBrowserSessions(ctx, b.now().Add(-b.Idle-2*recordEvery), forgetSessions)
		if err != nil || n < forgetSessions {
			return err
		}
	}
}
