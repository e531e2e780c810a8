package login

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/run"
)

const (
	// startCookie has a login at the provider until it is completed. Another login in the
	// same browser replaces it.
	startCookie = "drover_login"
	// loginTime is how long a user may take at the provider.
	loginTime = 10 * time.Minute
	// callbackPath is the page of the web UI to which the provider sends browsers. The page
	// completes the login by a call: the browser would send no cookie of ours with the
	// request for the page, because another site caused it.
	callbackPath = "/login/callback"
	// maxReturn bounds the path of a page, in bytes.
	maxReturn = 2000
)

// started is the content of the cookie.
type started struct {
	oidc.Start
	ReturnTo string `json:"return_to"`
}

// GetLoginOptions implements gateway.ServerInterface.
func (o *Handlers) GetLoginOptions(c echo.Context) error {
	v := api.LoginOptions{Token: o.deps.Sessions != nil}
	if o.deps.Provider != nil {
		opts := o.deps.Provider.Options()
		v.Provider = api.LoginProvider{Name: opts.Name, Issuer: opts.Issuer, DeviceClientID: opts.DeviceClientID, Scopes: opts.Scopes}
	}
	return c.JSON(http.StatusOK, v)
}

// BeginProviderLogin implements gateway.ServerInterface.
func (o *Handlers) BeginProviderLogin(c echo.Context) error {
	if err := o.checkProvider(c); err != nil {
		return err
	}
	var body api.ProviderLogin
	if err := o.deps.Decode(c, &body); err != nil {
		return err
	}
	if body.ReturnTo == "" {
		body.ReturnTo = o.deps.BasePath + "/"
	}
	if !validReturn(o.deps.BasePath, body.ReturnTo) {
		return run.Errorf(run.CodeInvalid, "return_to is not a path of this gateway")
	}
	start, err := o.deps.Provider.Start(c.Request().Context(), o.address(c.Request())+callbackPath)
	if err != nil {
		return err
	}
	// Only what begins counts: while the provider is down, open pages ask again and again.
	if err := o.admit(c, begins); err != nil {
		return err
	}
	text, err := json.Marshal(started{Start: start, ReturnTo: body.ReturnTo})
	if err != nil {
		return fmt.Errorf("begin a login: %w", err)
	}
	o.setStart(c, base64.RawURLEncoding.EncodeToString(text), int(loginTime.Seconds()))
	return c.JSON(http.StatusOK, api.ProviderLoginBegun{URL: start.URL})
}

// CompleteProviderLogin implements gateway.ServerInterface.
func (o *Handlers) CompleteProviderLogin(c echo.Context) error {
	if err := o.checkProvider(c); err != nil {
		return err
	}
	if err := o.admit(c, finishes); err != nil {
		return err
	}
	var body api.ProviderAnswer
	if err := o.deps.Decode(c, &body); err != nil {
		return err
	}
	s, ok := o.readStart(c.Request())
	if !ok || subtle.ConstantTimeCompare([]byte(s.State), []byte(body.State)) != 1 {
		return run.Errorf(run.CodeUnauthenticated, "this browser did not begin this login, or began another one since: log in again")
	}
	o.setStart(c, "", -1) // it is of use once
	if body.Error != "" || body.Code == "" {
		return run.Errorf(run.CodeUnauthenticated, "the identity provider refused the login: %s", strings.TrimSpace(body.Error+" "+body.ErrorDescription))
	}
	grant, err := o.deps.Provider.Finish(c.Request().Context(), s.Start, o.address(c.Request())+callbackPath, body.Code)
	if err != nil {
		return err
	}
	begun, err := o.deps.Sessions.BeginIdentity(c.Request().Context(), grant, c.Request().UserAgent())
	if err != nil {
		return err
	}
	if err := o.began(c, begun.Principal.Name); err != nil {
		_, _ = o.deps.Sessions.End(c.Request().Context(), begun.Secret, false) // else it expires: no browser has it
		return err
	}
	http.SetCookie(c.Response(), o.cookie(c.Request(), begun.Secret, begun.Session.Expires))
	return c.JSON(http.StatusCreated, api.ProviderLoginDone{Session: view(begun.Principal, begun.Session), ReturnTo: s.ReturnTo})
}

func (o *Handlers) checkProvider(c echo.Context) error {
	if o.deps.Provider == nil || o.deps.Sessions == nil {
		return run.Errorf(run.CodeNotSupported, "this gateway has no identity provider")
	}
	if err := o.csrf.Check(c.Request()); err != nil {
		return run.Errorf(run.CodeForbidden, "the request comes from another origin")
	}
	return nil
}

func (o *Handlers) setStart(c echo.Context, value string, seconds int) {
	http.SetCookie(c.Response(), &http.Cookie{ //nolint:gosec // Secure says how the browser reaches the gateway
		Name: o.cookieName(c.Request(), startCookie), Value: value, Path: o.cookiePath(), MaxAge: seconds, Secure: o.deps.Secure(c.Request()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

func (o *Handlers) readStart(r *http.Request) (s started, ok bool) {
	cookie, err := r.Cookie(o.cookieName(r, startCookie))
	if err != nil {
		return s, false
	}
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err == nil && s.State != "" && validReturn(o.deps.BasePath, s.ReturnTo)
}

// validReturn reports whether a text is the path of a page of this gateway, below its
// base path. Browsers read //HOST and /\HOST as another host, and skip tabs and line
// breaks. They resolve the segments . and .., also escaped, which could lead out of the
// base path; the address of a page has none.
func validReturn(base, path string) bool {
	if len(path) > maxReturn || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return false
	}
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil {
		return false
	}
	escaped := u.EscapedPath()
	return (base == "" || strings.HasPrefix(escaped, base+"/")) && !slices.ContainsFunc(strings.Split(escaped, "/"), isDots)
}

// isDots reports whether a browser resolves a segment of a path.
func isDots(segment string) bool {
	segment = strings.ReplaceAll(strings.ToLower(segment), "%2e", ".")
	return segment == "." || segment == ".."
}
