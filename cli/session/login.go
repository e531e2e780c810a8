package session

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/oauth2"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/run"
)

const (
	// renewBefore is how long before its expiry a token is renewed.
	renewBefore = 30 * time.Second
	// renewTimeout bounds the renewal, with the wait for that of another command.
	renewTimeout = 30 * time.Second
	// lockEvery is the pause before another attempt to lock the file of a login.
	lockEvery = 50 * time.Millisecond
	// maxMetadata bounds the answer of a provider, in bytes.
	maxMetadata = 1 << 20
)

// Login is a login at an OpenID Connect provider. The file of a context's token has it
// in JSON in place of a token.
type Login struct {
	Issuer       string    `json:"issuer"`
	ClientID     string    `json:"client_id"`
	TokenURL     string    `json:"token_url"`
	IDToken      string    `json:"id_token"` // what the gateway gets
	RefreshToken string    `json:"refresh_token,omitempty"`
	Expires      time.Time `json:"expires"` // of the ID token
}

// Provider is the part of a provider's metadata that a login needs.
type Provider struct {
	Issuer    string `json:"issuer"`
	TokenURL  string `json:"token_endpoint"`
	DeviceURL string `json:"device_authorization_endpoint"`
}

// Discover reads the metadata of a provider. Errors: unavailable, not_supported (it has
// no device flow).
func Discover(ctx context.Context, client *http.Client, issuer string) (Provider, error) {
	var p Provider
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return p, run.Errorf(run.CodeUnavailable, "find the identity provider: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return p, run.Errorf(run.CodeUnavailable, "find the identity provider: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return p, run.Errorf(run.CodeUnavailable, "find the identity provider: %s answered %s", request.URL, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxMetadata)).Decode(&p); err != nil {
		return p, run.Errorf(run.CodeUnavailable, "read the metadata of the identity provider: %w", err)
	}
	if p.Issuer != issuer {
		return p, run.Errorf(run.CodeUnavailable, "%s names another issuer, %s", issuer, p.Issuer)
	}
	if p.DeviceURL == "" || p.TokenURL == "" {
		return p, run.Errorf(run.CodeNotSupported, "the identity provider %s has no device flow: log in with a token", issuer)
	}
	return p, nil
}

// NewLogin returns the login that an answer of a provider's token endpoint has.
func NewLogin(issuer, clientID, tokenURL string, answer *oauth2.Token) (Login, error) {
	l := Login{Issuer: issuer, ClientID: clientID, TokenURL: tokenURL, RefreshToken: answer.RefreshToken}
	l.IDToken, _ = answer.Extra("id_token").(string)
	if l.IDToken == "" {
		return l, run.Errorf(run.CodeUnauthenticated, "the identity provider sent no ID token")
	}
	claims, err := claimsOf(l.IDToken)
	if err != nil {
		return l, run.Errorf(run.CodeUnauthenticated, "the ID token of the identity provider cannot be read: %w", err)
	}
	l.Expires = time.Unix(claims.Expires, 0).UTC()
	return l, nil
}

// idClaims are the claims of an ID token that are of interest here.
type idClaims struct {
	Subject string `json:"sub"`
	Expires int64  `json:"exp"`
}

// claimsOf reads the claims of an ID token, which only the gateway checks.
func claimsOf(token string) (idClaims, error) {
	var claims idClaims
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)])
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	return claims, err
}

// userOf returns a key of the user who logged in, which is the same after a renewal; ""
// if the content of a token file does not name the user.
func userOf(content string) string {
	var l Login
	if json.Unmarshal([]byte(content), &l) != nil {
		return ""
	}
	claims, err := claimsOf(l.IDToken)
	if err != nil || claims.Subject == "" {
		return ""
	}
	return l.Issuer + "\n" + claims.Subject
}

// Write stores a login in a file that only the user can read.
func (l Login) Write(path string) error {
	text, err := json.Marshal(l) //nolint:gosec // the file is for the user alone
	if err == nil {
		err = durable.WriteFile(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("store the login: %w", err)
	}
	return nil
}

// isLogin reports whether the content of a token file is a login.
func isLogin(content string) bool { return strings.HasPrefix(content, "{") }

// savedLogin is the login in a file, which several commands use at once.
type savedLogin struct {
	path      string
	server    string
	transport http.RoundTripper // nil means the default
	now       func() time.Time
}

func (s savedLogin) read() (Login, error) {
	var l Login
	content, err := os.ReadFile(s.path)
	if err == nil {
		err = json.Unmarshal(content, &l)
	}
	if err != nil {
		return l, run.Errorf(run.CodeUnauthenticated, "read the login of %s: %w", s.server, err)
	}
	return l, nil
}

func (s savedLogin) fresh(l Login) bool { return s.now().Add(renewBefore).Before(l.Expires) }

// token returns the token, and renews it if it expires soon. Providers may accept a
// refresh token once, so one command at a time renews.
func (s savedLogin) token(ctx context.Context) (string, error) {
	l, err := s.read()
	if err != nil || s.fresh(l) {
		return l.IDToken, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, renewTimeout, fmt.Errorf("the login was not renewed within %s", renewTimeout))
	defer cancel()
	lock := flock.New(s.path + ".lock")
	if _, err := lock.TryLockContext(ctx, lockEvery); err != nil {
		return "", run.Errorf(run.CodeUnavailable, "lock the login of %s: %w", s.server, err)
	}
	defer func() { _ = lock.Unlock() }()
	if l, err = s.read(); err != nil || s.fresh(l) {
		return l.IDToken, err
	}
	if l.RefreshToken == "" {
		return "", s.ended("the login has expired")
	}
	config := oauth2.Config{ClientID: l.ClientID, Endpoint: oauth2.Endpoint{TokenURL: l.TokenURL, AuthStyle: oauth2.AuthStyleInParams}}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: s.transport})
	answer, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: l.RefreshToken}).Token()
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refusal.ErrorCode == "invalid_grant" {
		return "", s.ended("the identity provider has ended the login")
	}
	if err != nil {
		return "", run.Errorf(run.CodeUnavailable, "renew the login of %s: %w", s.server, err)
	}
	if answer.RefreshToken != l.RefreshToken { // the provider may not accept the old one again, also if the rest fails
		l.RefreshToken = answer.RefreshToken
		if err := l.Write(s.path); err != nil {
			return "", err
		}
	}
	renewed, err := NewLogin(l.Issuer, l.ClientID, l.TokenURL, answer)
	if err != nil {
		return "", err
	}
	return renewed.IDToken, renewed.Write(s.path)
}

func (s savedLogin) ended(reason string) error {
	return run.Errorf(run.CodeUnauthenticated, "%s: drover login %s --oidc", reason, s.server)
}
