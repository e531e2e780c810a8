package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/url"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

// Start is a login that begins. The browser that began it keeps it until the end.
type Start struct {
	URL string `json:"-"` // of the provider, where the user continues
	// State and Nonce bind the answer of the provider to the browser, and Verifier
	// proves that the gateway began the login (RFC 7636).
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Start begins a login. The provider sends the browser back to redirect. Errors:
// unavailable.
func (p *Provider) Start(ctx context.Context, redirect string) (Start, error) {
	m, err := p.answering(ctx, answered)
	if err != nil {
		return Start{}, err
	}
	config, err := p.config(m, redirect)
	if err != nil {
		return Start{}, err
	}
	s := Start{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	s.URL = config.AuthCodeURL(s.State, oidc.Nonce(s.Nonce), oauth2.S256ChallengeOption(s.Verifier))
	return s, nil
}

// Finish exchanges the code with which the browser came back. Errors: unauthenticated,
// forbidden (the user has no usable name), unavailable.
func (p *Provider) Finish(ctx context.Context, s Start, redirect, code string) (tokens.Grant, error) {
	m, err := p.discover(ctx)
	if err != nil {
		return tokens.Grant{}, err
	}
	config, err := p.config(m, redirect)
	if err != nil {
		return tokens.Grant{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	answer, err := config.Exchange(ctx, code, oauth2.VerifierOption(s.Verifier))
	if err != nil {
		return tokens.Grant{}, p.refused(err, "the identity provider refused the login")
	}
	return p.grant(ctx, m, answer, func(t *oidc.IDToken) error {
		if subtle.ConstantTimeCompare([]byte(t.Nonce), []byte(s.Nonce)) != 1 {
			return run.Errorf(run.CodeUnauthenticated, "the token of the identity provider belongs to another login: log in again")
		}
		return nil
	})
}

// grant reads the answer of the token endpoint to a login, or to a refresh.
func (p *Provider) grant(ctx context.Context, m *metadata, answer *oauth2.Token, check func(*oidc.IDToken) error) (tokens.Grant, error) {
	g := tokens.Grant{RefreshToken: answer.RefreshToken}
	g.IDToken, _ = answer.Extra("id_token").(string)
	if g.IDToken == "" {
		return g, run.Errorf(run.CodeUnauthenticated, "the identity provider sent no ID token")
	}
	t, c, err := p.verify(ctx, m, g.IDToken)
	if err == nil && !forAudience(t, p.opts.ClientID) {
		err = run.Errorf(run.CodeUnauthenticated, "the ID token is for %v, not for the client %s of the gateway", t.Audience, p.opts.ClientID)
	}
	if err == nil {
		err = check(t)
	}
	if err != nil {
		return g, err
	}
	if !p.complete(c) && m.provider.UserInfoEndpoint() != "" {
		if err := p.addUserInfo(ctx, m, answer, t.Subject, c); err != nil {
			return g, err
		}
	}
	g.Identity, err = p.identity(t.Subject, c)
	return g, err
}

// addUserInfo adds the claims that only the user info endpoint has. Whether an address is
// verified is true of that address alone: the answer of one source cannot vouch for
// another address, which the other source has.
func (p *Provider) addUserInfo(ctx context.Context, m *metadata, answer *oauth2.Token, subject string, c claims) error {
	info, err := m.provider.UserInfo(ctx, oauth2.StaticTokenSource(answer))
	if err != nil {
		return p.unavailable(err)
	}
	more := claims{}
	if err := info.Claims(&more); err != nil {
		return p.unavailable(err)
	}
	if info.Subject != subject {
		return run.Errorf(run.CodeUnauthenticated, "the identity provider answered with another user")
	}
	if address, known := c["email"]; !known {
		delete(c, "email_verified")
	} else if a, ok := address.(string); !ok || more["email"] != a {
		delete(more, "email_verified")
	}
	for name, v := range more {
		if _, known := c[name]; !known {
			c[name] = v
		}
	}
	return nil
}

// Refresh implements tokens.Provider. A provider that sends no new ID token has
// confirmed the login, and the user as he was.
func (p *Provider) Refresh(ctx context.Context, g tokens.Grant, rotated func(refreshToken string)) (tokens.Grant, error) {
	m, err := p.discover(ctx)
	if err != nil {
		return g, err
	}
	config, err := p.config(m, "")
	if err != nil {
		return g, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	answer, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: g.RefreshToken}).Token()
	if err != nil {
		return g, p.refused(err, "the identity provider has ended the login: log in again")
	}
	if answer.RefreshToken != g.RefreshToken {
		rotated(answer.RefreshToken)
	}
	if id, _ := answer.Extra("id_token").(string); id == "" {
		g.RefreshToken = answer.RefreshToken
		return g, nil
	}
	subject := g.Identity.Subject
	return p.grant(ctx, m, answer, func(t *oidc.IDToken) error {
		if t.Subject != subject {
			return run.Errorf(run.CodeUnauthenticated, "the identity provider answered with another user: log in again")
		}
		return nil
	})
}

// LogoutURL returns where a browser logs out at the provider too, "" if the provider
// offers no such page or cannot be reached.
func (p *Provider) LogoutURL(ctx context.Context, idToken, back string) string {
	m, err := p.discover(ctx)
	if err != nil || m.EndSession == "" || idToken == "" {
		return ""
	}
	u, err := url.Parse(m.EndSession)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	q := u.Query()
	q.Set("id_token_hint", idToken)
	q.Set("client_id", p.opts.ClientID)
	q.Set("post_logout_redirect_uri", back)
	u.RawQuery = q.Encode()
	return u.String()
}
