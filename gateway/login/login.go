// Package login serves the sessions of browsers: a user exchanges a bearer token for a
// cookie that scripts cannot read.
package login

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/run"
)

// Sessions are the sessions of browsers: see tokens.Browsers.
type Sessions interface {
	Begin(ctx context.Context, token, browser string) (tokens.Login, error)
	Authenticate(ctx context.Context, secret string) (tokens.Principal, run.BrowserSession, error)
	Recheck(ctx context.Context, secret string) (tokens.Principal, error)
	Reaffirm(ctx context.Context, secret string) (tokens.Principal, error)
	BeginIdentity(ctx context.Context, g tokens.Grant, browser string) (tokens.Login, error)
	End(ctx context.Context, secret string, everywhere bool) (tokens.Grant, error)
}

const (
	// sessionCookie is the cookie of a gateway without TLS, and secureCookie of one with it.
	sessionCookie = "drover_session"
	secureCookie  = "drover"

	// An address may try loginBurst logins at once, and one more each loginEvery.
	loginBurst = 10
	loginEvery = 6 * time.Second
	// maxAddresses bounds the addresses in memory.
	maxAddresses = 10_000
)

// Deps are the dependencies of the operations.
type Deps struct {
	Sessions Sessions       // nil: the gateway has no logins
	Provider *oidc.Provider // nil: no users of a provider can log in
	// BasePath is the path below which browsers reach the gateway, such as /drover; ""
	// means the root.
	BasePath string
	// Secure reports whether a browser reaches the gateway over TLS, also if a proxy ends it.
	Secure func(r *http.Request) bool
	// Decode reads the body of a call.
	Decode func(c echo.Context, v any) error
	// Caller returns the principal of the call.
	Caller func(c echo.Context) tokens.Principal
	// Began writes the record of the call to the audit log; nil means that there is none.
	// After an error, the call must change nothing.
	Began func(c echo.Context, subject, token string) error
}

// Handlers implements the operations of the contract.
type Handlers struct {
	deps Deps

	mu       sync.Mutex
	attempts map[string]*rate.Limiter // by part and address
	csrf     *http.CrossOriginProtection
}

// New returns the operations.
func New(deps Deps) *Handlers {
	return &Handlers{deps: deps, attempts: map[string]*rate.Limiter{}, csrf: http.NewCrossOriginProtection()}
}

// Authenticate returns the principal of a request with the cookie of a session, and
// whether it has one. It refuses requests of other origins that change something: the
// browser adds the cookie to them too.
func (o *Handlers) Authenticate(r *http.Request) (p tokens.Principal, found bool, err error) {
	secret, ok := o.secret(r)
	if !ok {
		return p, false, nil
	}
	if err := o.csrf.Check(r); err != nil {
		return p, true, run.Errorf(run.CodeForbidden, "the request comes from another origin")
	}
	p, _, err = o.deps.Sessions.Authenticate(r.Context(), secret)
	return p, true, err
}

// Recheck is like Authenticate for a request that was accepted before and lasts.
func (o *Handlers) Recheck(r *http.Request) (p tokens.Principal, found bool, err error) {
	secret, ok := o.secret(r)
	if !ok {
		return p, false, nil
	}
	p, err = o.deps.Sessions.Recheck(r.Context(), secret)
	return p, true, err
}

// Reaffirm is like Recheck, by what the records have now.
func (o *Handlers) Reaffirm(r *http.Request) (p tokens.Principal, found bool, err error) {
	secret, ok := o.secret(r)
	if !ok {
		return p, false, nil
	}
	p, err = o.deps.Sessions.Reaffirm(r.Context(), secret)
	return p, true, err
}

func (o *Handlers) secret(r *http.Request) (string, bool) {
	if o.deps.Sessions == nil {
		return "", false
	}
	cookie, err := r.Cookie(o.sessionName(r))
	if err != nil || cookie.Value == "" {
		return "", false
	}
	return cookie.Value, true
}

// BeginSession implements gateway.ServerInterface.
func (o *Handlers) BeginSession(c echo.Context) error {
	if o.deps.Sessions == nil {
		return errNoSessions()
	}
	if err := o.csrf.Check(c.Request()); err != nil {
		return run.Errorf(run.CodeForbidden, "the request comes from another origin")
	}
	if err := o.admit(c, finishes); err != nil {
		return err
	}
	var body api.SessionLogin
	if err := o.deps.Decode(c, &body); err != nil {
		return err
	}
	begun, err := o.deps.Sessions.Begin(c.Request().Context(), body.Token, c.Request().UserAgent())
	if err != nil {
		return err
	}
	if err := o.began(c, begun.Principal.Name); err != nil {
		_, _ = o.deps.Sessions.End(c.Request().Context(), begun.Secret, false) // else it expires: no browser has it
		return err
	}
	http.SetCookie(c.Response(), o.cookie(c.Request(), begun.Secret, begun.Session.Expires))
	return c.JSON(http.StatusCreated, view(begun.Principal, begun.Session))
}

func view(p tokens.Principal, s run.BrowserSession) api.Session {
	v := api.Session{Subject: p.Name, Scopes: make([]string, len(p.Scopes)), ExpiresAt: s.Expires.UTC()}
	for i, scope := range p.Scopes {
		v.Scopes[i] = string(scope)
	}
	for _, b := range p.Roles {
		v.Bindings = append(v.Bindings, api.RoleBinding{Role: api.RoleBindingRole(b.Role), Groups: b.Groups})
	}
	return v
}

// GetSession implements gateway.ServerInterface.
func (o *Handlers) GetSession(c echo.Context) error {
	var s run.BrowserSession
	// A bearer token decides alone who the caller is.
	if secret, ok := o.secret(c.Request()); ok && c.Request().Header.Get(echo.HeaderAuthorization) == "" {
		var err error
		if _, s, err = o.deps.Sessions.Authenticate(c.Request().Context(), secret); err != nil {
			return err
		}
	}
	return c.JSON(http.StatusOK, view(o.deps.Caller(c), s))
}

// EndSession implements gateway.ServerInterface.
func (o *Handlers) EndSession(c echo.Context, params api.EndSessionParams) error {
	secret, ok := o.secret(c.Request())
	if !ok {
		return c.JSON(http.StatusOK, api.SessionEnd{})
	}
	if err := o.csrf.Check(c.Request()); err != nil {
		return run.Errorf(run.CodeForbidden, "the request comes from another origin")
	}
	if p, _, err := o.deps.Sessions.Authenticate(c.Request().Context(), secret); err == nil {
		if err := o.began(c, p.Name); err != nil {
			return err
		}
	}
	grant, err := o.deps.Sessions.End(c.Request().Context(), secret, params.Everywhere != nil && *params.Everywhere)
	if err != nil {
		return err
	}
	http.SetCookie(c.Response(), o.cookie(c.Request(), "", time.Unix(1, 0)))
	var v api.SessionEnd
	if o.deps.Provider != nil {
		v.LogoutURL = o.deps.Provider.LogoutURL(c.Request().Context(), grant.IDToken, o.address(c.Request())+"/")
	}
	return c.JSON(http.StatusOK, v)
}

// address returns the URL of the gateway as the browser sees it. The host was checked.
func (o *Handlers) address(r *http.Request) string {
	scheme := "http"
	if o.deps.Secure(r) {
		scheme = "https"
	}
	return scheme + "://" + r.Host + o.deps.BasePath
}

// began records the login or logout of a subject in the audit log.
func (o *Handlers) began(c echo.Context, name string) error {
	if o.deps.Began == nil {
		return nil
	}
	return o.deps.Began(c, name, name)
}

func (o *Handlers) cookie(r *http.Request, value string, expires time.Time) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure says how the browser reaches the gateway
		Name: o.sessionName(r), Value: value, Path: o.cookiePath(), Expires: expires, Secure: o.deps.Secure(r),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

func errNoSessions() error {
	return run.Errorf(run.CodeNotSupported, "this gateway has no tokens, so it needs no login")
}

// The parts of a login. Each has its own bound, so a login with both counts once in each.
const (
	begins   = "begin "
	finishes = ""
)

// admit refuses a part of a login if its address has tried too many.
func (o *Handlers) admit(c echo.Context, part string) error {
	wait := o.limit(part, c.RealIP())
	if wait == 0 {
		return nil
	}
	seconds := int(wait.Seconds()) + 1
	c.Response().Header().Set("Retry-After", strconv.Itoa(seconds))
	return run.Errorf(run.CodeExhausted, "too many logins from this address: try again in %d s", seconds)
}

// limit returns how long an address must wait before its next part of a login; 0 if it may
// try one now.
func (o *Handlers) limit(part, address string) time.Duration {
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		address = ip.Mask(net.CIDRMask(64, 128)).String() // one host has all addresses of its network
	}
	address = part + address
	o.mu.Lock()
	defer o.mu.Unlock()
	limiter, ok := o.attempts[address]
	if !ok {
		if len(o.attempts) >= maxAddresses {
			clear(o.attempts)
		}
		limiter = rate.NewLimiter(rate.Every(loginEvery), loginBurst)
		o.attempts[address] = limiter
	}
	reservation := limiter.Reserve()
	wait := reservation.Delay()
	if wait > 0 {
		reservation.Cancel()
	}
	return wait
}
