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
	"github.com/drover-run/drover/run"
)

// Sessions are the sessions of browsers: see tokens.Browsers.
type Sessions interface {
	Begin(ctx context.Context, token, browser string) (secret string, s run.BrowserSession, err error)
	Authenticate(ctx context.Context, secret string) (tokens.Principal, run.BrowserSession, error)
	End(ctx context.Context, secret string, everywhere bool) error
}

const (
	// A cookie with the prefix is accepted by browsers only if it is secure, and of
	// exactly this host (RFC 6265bis, section 4.1.3.2).
	secureCookie = "__Host-drover"
	// plainCookie is the cookie of a gateway without TLS.
	plainCookie = "drover_session"

	// An address may try loginBurst logins at once, and one more each loginEvery.
	loginBurst = 10
	loginEvery = 6 * time.Second
	// maxAddresses bounds the addresses in memory.
	maxAddresses = 10_000
)

// Handlers implements the operations of the contract. Sessions may be nil.
type Handlers struct {
	Sessions Sessions
	// Secure says that browsers reach the gateway over TLS, also if a proxy ends it.
	Secure bool
	// Decode reads the body of a call.
	Decode func(c echo.Context, v any) error
	// Caller returns the principal of the call.
	Caller func(c echo.Context) tokens.Principal
	// Began writes the record of the call to the audit log; nil means that there is none.
	// After an error, the call must change nothing.
	Began func(c echo.Context, subject, token string) error

	mu       sync.Mutex
	attempts map[string]*rate.Limiter // by address
	csrf     *http.CrossOriginProtection
}

// New returns the operations. sessions may be nil.
func New(sessions Sessions, secure bool, decode func(echo.Context, any) error, caller func(echo.Context) tokens.Principal) *Handlers {
	return &Handlers{
		Sessions: sessions, Secure: secure, Decode: decode, Caller: caller,
		attempts: map[string]*rate.Limiter{}, csrf: http.NewCrossOriginProtection(),
	}
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
	p, _, err = o.Sessions.Authenticate(r.Context(), secret)
	return p, true, err
}

func (o *Handlers) secret(r *http.Request) (string, bool) {
	if o.Sessions == nil {
		return "", false
	}
	cookie, err := r.Cookie(o.cookieName())
	if err != nil || cookie.Value == "" {
		return "", false
	}
	return cookie.Value, true
}

func (o *Handlers) cookieName() string {
	if o.Secure {
		return secureCookie
	}
	return plainCookie
}

// BeginSession implements gateway.ServerInterface.
func (o *Handlers) BeginSession(c echo.Context) error {
	if o.Sessions == nil {
		return errNoSessions()
	}
	if err := o.csrf.Check(c.Request()); err != nil {
		return run.Errorf(run.CodeForbidden, "the request comes from another origin")
	}
	if wait := o.limit(c.RealIP()); wait > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
		return run.Errorf(run.CodeExhausted, "too many logins from this address: try again in %d s", int(wait.Seconds())+1)
	}
	var body api.SessionLogin
	if err := o.Decode(c, &body); err != nil {
		return err
	}
	secret, s, err := o.Sessions.Begin(c.Request().Context(), body.Token, c.Request().UserAgent())
	if err != nil {
		return err
	}
	if err := o.began(c, s.Name); err != nil {
		_ = o.Sessions.End(c.Request().Context(), secret, false) // else it expires: no browser has it
		return err
	}
	http.SetCookie(c.Response(), o.cookie(secret, s.Expires))
	return c.JSON(http.StatusCreated, api.Session{Subject: s.Name, Scopes: []string{}, ExpiresAt: s.Expires.UTC()})
}

// GetSession implements gateway.ServerInterface.
func (o *Handlers) GetSession(c echo.Context) error {
	p := o.Caller(c)
	v := api.Session{Subject: p.Name, Scopes: make([]string, len(p.Scopes))}
	for i, s := range p.Scopes {
		v.Scopes[i] = string(s)
	}
	if secret, ok := o.secret(c.Request()); ok {
		if _, s, err := o.Sessions.Authenticate(c.Request().Context(), secret); err == nil {
			v.ExpiresAt = s.Expires.UTC()
		}
	}
	return c.JSON(http.StatusOK, v)
}

// EndSession implements gateway.ServerInterface.
func (o *Handlers) EndSession(c echo.Context, params api.EndSessionParams) error {
	secret, ok := o.secret(c.Request())
	if !ok {
		return c.NoContent(http.StatusNoContent)
	}
	if err := o.csrf.Check(c.Request()); err != nil {
		return run.Errorf(run.CodeForbidden, "the request comes from another origin")
	}
	if p, _, err := o.Sessions.Authenticate(c.Request().Context(), secret); err == nil {
		if err := o.began(c, p.Name); err != nil {
			return err
		}
	}
	if err := o.Sessions.End(c.Request().Context(), secret, params.Everywhere != nil && *params.Everywhere); err != nil {
		return err
	}
	http.SetCookie(c.Response(), o.cookie("", time.Unix(1, 0)))
	return c.NoContent(http.StatusNoContent)
}

// began records the login or logout of the subject of a token.
func (o *Handlers) began(c echo.Context, name string) error {
	if o.Began == nil {
		return nil
	}
	return o.Began(c, name, name)
}

func (o *Handlers) cookie(value string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: o.cookieName(), Value: value, Path: "/", Expires: expires, Secure: o.Secure,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

func errNoSessions() error {
	return run.Errorf(run.CodeNotSupported, "this gateway has no tokens, so it needs no login")
}

// limit returns how long an address must wait before its next login; 0 if it may try
// one now.
func (o *Handlers) limit(address string) time.Duration {
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		address = ip.Mask(net.CIDRMask(64, 128)).String() // one host has all addresses of its network
	}
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
