// Package oidc accepts the users of an OpenID Connect provider: it logs browsers in,
// confirms their logins, and checks the tokens that the provider issued.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

const (
	// callTimeout bounds each call of the provider.
	callTimeout = 10 * time.Second
	// rediscover is how old the provider's metadata may be.
	rediscover = time.Hour
	// answered is how long ago the provider must have answered for a login to begin: the
	// login page says that it is down, before the browser goes there.
	answered = 10 * time.Second
	// discoverAgain is the pause after a failed discovery, so that requests with tokens
	// of the provider do not wait for it one after the other.
	discoverAgain = 5 * time.Second
	// ClockSkew is how far the clocks of provider and gateway may differ.
	ClockSkew = time.Minute
	// Tokens with the name of an unknown key make the gateway read the keys of the
	// provider, at most keysBurst times at once and then once in keysEvery.
	keysEvery = 10 * time.Second
	keysBurst = 5
	// maxAnswer bounds the answers of the provider, in bytes.
	maxAnswer = 4 << 20
)

// Options are the settings of a Provider.
type Options struct {
	// Issuer is the URL of the provider, where its metadata are discovered.
	Issuer string
	// Name is what the login page calls the provider.
	Name string
	// ClientID and ClientSecretFile identify the gateway; no file means a public client.
	ClientID, ClientSecretFile string
	// DeviceClientID is the public client of the command line; "" means that users of the
	// command line cannot log in with the provider.
	DeviceClientID string
	// Audiences are the audiences of accepted tokens, besides the two clients.
	Audiences []string
	// Scopes are what the login asks for, besides openid.
	Scopes []string
	// SubjectClaim has the name of a user, before which SubjectPrefix is put, and
	// GroupsClaim the groups.
	SubjectClaim, SubjectPrefix, GroupsClaim string
	// SubjectUnverified accepts addresses as names of which the provider does not say, with
	// the claim email_verified, that it has verified them.
	SubjectUnverified bool
	// Bindings give scopes to users: see ParseBindings.
	Bindings []string
	// Roles give roles in groups to the users without scopes; nil gives none.
	Roles roles.Subjects
	// Transport makes the connections; nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Logger gets warnings about the bindings; nil means none.
	Logger *slog.Logger
}

// Provider is an OpenID Connect provider. It is safe for concurrent use, and reaches
// the provider when it is needed: a gateway starts without it.
type Provider struct {
	opts     Options
	bindings []Binding
	client   *http.Client
	keys     *http.Client
	now      func() time.Time

	discovering singleflight.Group

	mu      sync.Mutex
	found   *metadata
	tried   time.Time
	failure error
	foundAt time.Time
}

// metadata is what a provider says of itself.
type metadata struct {
	provider   *oidc.Provider
	verifier   *oidc.IDTokenVerifier
	EndSession string `json:"end_session_endpoint"`
}

var _ tokens.Provider = (*Provider)(nil)

// New returns a provider without reaching it. The error has all faults of the bindings.
func New(opts Options) (*Provider, error) {
	bindings, err := ParseBindings(opts.Bindings)
	if err != nil {
		return nil, err
	}
	for _, b := range bindings {
		if why := roles.Prefixed(b.User, opts.SubjectPrefix); why != "" && opts.Logger != nil {
			opts.Logger.Warn("a binding of gateway.oidc.bindings has no effect", "binding", "user:"+b.User, "reason", why)
		}
	}
	transport := opts.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	limited := bounded{next: transport}
	return &Provider{
		opts: opts, bindings: bindings, now: time.Now,
		client: &http.Client{Transport: limited, Timeout: callTimeout},
		keys:   &http.Client{Transport: throttled{next: limited, limit: rate.NewLimiter(rate.Every(keysEvery), keysBurst)}, Timeout: callTimeout},
	}, nil
}

// Options returns the settings.
func (p *Provider) Options() Options { return p.opts }

// discover returns the metadata of the provider, also old ones if it does not answer.
// Errors: unavailable.
func (p *Provider) discover(ctx context.Context) (*metadata, error) {
	m, err := p.answering(ctx, rediscover)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.found != nil {
		return p.found, nil
	}
	return m, err
}

// answering returns the metadata of a provider that has answered within a time.
// Errors: unavailable.
func (p *Provider) answering(ctx context.Context, within time.Duration) (*metadata, error) {
	p.mu.Lock()
	found, age, failure, since := p.found, p.now().Sub(p.foundAt), p.failure, p.now().Sub(p.tried)
	p.mu.Unlock()
	if failure != nil && since < discoverAgain {
		return nil, failure
	}
	if found != nil && age < within {
		return found, nil
	}
	answer := p.discovering.DoChan("", func() (any, error) { return p.read(context.WithoutCancel(ctx)) })
	select {
	case <-ctx.Done():
		return nil, run.Errorf(run.CodeUnavailable, "the identity provider %s did not answer: %w", p.opts.Name, context.Cause(ctx))
	case r := <-answer:
		m, _ := r.Val.(*metadata)
		return m, r.Err
	}
}

// read reads the metadata.
func (p *Provider) read(ctx context.Context) (*metadata, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.opts.Issuer)
	m := &metadata{provider: provider}
	if err == nil {
		err = provider.Claims(m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried, p.failure = p.now(), nil
	if err != nil {
		p.failure = p.unavailable(err)
		return nil, p.failure
	}
	if p.found != nil && p.found.provider.Endpoint() == provider.Endpoint() {
		m.verifier = p.found.verifier // it has the keys already
	} else {
		m.verifier = p.verifier(ctx, provider)
	}
	p.found, p.foundAt = m, p.now()
	return m, nil
}

// verifier returns the check of tokens, apart from their audience.
func (p *Provider) verifier(ctx context.Context, provider *oidc.Provider) *oidc.IDTokenVerifier {
	return provider.VerifierContext(oidc.ClientContext(ctx, p.keys), &oidc.Config{
		SkipClientIDCheck: true,
		Now:               func() time.Time { return p.now().Add(-ClockSkew) },
	})
}

// unavailable is the error of a provider that cannot be used now.
func (p *Provider) unavailable(err error) error {
	return run.Errorf(run.CodeUnavailable, "the identity provider %s cannot be used: %w", p.opts.Name, err)
}

// verify checks a token of the provider apart from its audience, and returns its
// claims. Errors: unauthenticated, token_expired, unavailable.
func (p *Provider) verify(ctx context.Context, m *metadata, token string) (*oidc.IDToken, claims, error) {
	t, err := m.verifier.Verify(ctx, token)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return nil, nil, run.Errorf(run.CodeTokenExpired, "the token of the identity provider expired at %s", expired.Expiry.UTC().Format(time.RFC3339))
	case err != nil && (strings.Contains(err.Error(), "fetching keys") || ctx.Err() != nil): // the library returns no type for it
		return nil, nil, p.unavailable(err)
	case err != nil:
		return nil, nil, run.Errorf(run.CodeUnauthenticated, "the token of the identity provider is not valid: %w", err)
	}
	c := claims{}
	if err := t.Claims(&c); err != nil {
		return nil, nil, run.Errorf(run.CodeUnauthenticated, "the token of the identity provider has no readable claims: %w", err)
	}
	if t.IssuedAt.After(p.now().Add(ClockSkew)) {
		return nil, nil, run.Errorf(run.CodeUnauthenticated, "the token of the identity provider was issued in the future, at %s: compare the clocks", t.IssuedAt.UTC().Format(time.RFC3339))
	}
	return t, c, nil
}

// config returns the client of the gateway at the provider.
func (p *Provider) config(m *metadata, redirect string) (*oauth2.Config, error) {
	c := &oauth2.Config{
		ClientID: p.opts.ClientID, Endpoint: m.provider.Endpoint(), RedirectURL: redirect, Scopes: append([]string{oidc.ScopeOpenID}, p.opts.Scopes...),
	}
	if p.opts.ClientSecretFile != "" {
		secret, err := os.ReadFile(p.opts.ClientSecretFile)
		if err != nil {
			return nil, run.Errorf(run.CodeUnavailable, "the gateway cannot read its secret for the identity provider: %w", err)
		}
		c.ClientSecret = strings.TrimSpace(string(secret))
	}
	return c, nil
}

// refused returns the error of a call of the provider's token endpoint. ended is the
// text if the provider does not accept the grant.
func (p *Provider) refused(err error, ended string) error {
	var refusal *oauth2.RetrieveError
	if !errors.As(err, &refusal) || refusal.ErrorCode == "" {
		return p.unavailable(err)
	}
	reason := refusal.ErrorCode
	if refusal.ErrorDescription != "" {
		reason += ": " + refusal.ErrorDescription
	}
	if refusal.ErrorCode == "invalid_grant" {
		return run.Errorf(run.CodeUnauthenticated, "%s (%s)", ended, reason)
	}
	return p.unavailable(fmt.Errorf("it refused the gateway (%s): check the settings of gateway.oidc", reason))
}
