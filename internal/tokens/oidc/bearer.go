package oidc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

// Authenticator accepts the tokens of a provider, and those that another
// Authenticator accepts.
type Authenticator struct {
	provider *Provider
	next     tokens.Authenticator
}

var _ tokens.Authenticator = (*Authenticator)(nil)

// WithProvider returns an Authenticator that accepts the tokens of a provider, and
// those that next accepts.
func WithProvider(provider *Provider, next tokens.Authenticator) *Authenticator {
	return &Authenticator{provider: provider, next: next}
}

// Authenticate implements tokens.Authenticator.
func (a *Authenticator) Authenticate(token string) (tokens.Principal, bool) {
	if !isJWT(token) {
		return a.next.Authenticate(token)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), callTimeout, fmt.Errorf("the provider did not answer within %s", callTimeout))
	defer cancel()
	p, err := a.provider.bearer(ctx, token)
	if err != nil {
		return tokens.Principal{Refusal: err}, false
	}
	return p, true
}

// isJWT reports whether a token can be that of a provider: three parts, of which the
// first is a JSON object in base64. No token of Drover has that form.
func isJWT(token string) bool {
	return strings.HasPrefix(token, "ey") && strings.Count(token, ".") == 2
}

// bearer returns the principal of a token of the provider: an ID token, or an access
// token that is a JWT. Errors: unauthenticated, token_expired, forbidden, unavailable.
func (p *Provider) bearer(ctx context.Context, token string) (tokens.Principal, error) {
	m, err := p.discover(ctx)
	if err != nil {
		return tokens.Principal{}, err
	}
	t, c, err := p.verify(ctx, m, token)
	if err != nil {
		return tokens.Principal{}, err
	}
	if !forAudience(t, append([]string{p.opts.ClientID, p.opts.DeviceClientID}, p.opts.Audiences...)...) {
		return tokens.Principal{}, run.Errorf(run.CodeUnauthenticated, "the token of the identity provider is for %v, not for this gateway", t.Audience)
	}
	id, err := p.identity(t.Subject, c)
	if err != nil {
		return tokens.Principal{}, err
	}
	return p.Principal(id)
}

// forAudience reports whether a token is for one of the audiences.
func forAudience(t *oidc.IDToken, audiences ...string) bool {
	return slices.ContainsFunc(t.Audience, func(a string) bool { return a != "" && slices.Contains(audiences, a) })
}
