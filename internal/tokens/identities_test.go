package tokens

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// fakeProvider has one user, whose refresh token changes with each use.
type fakeProvider struct {
	mu     sync.Mutex
	valid  string // the refresh token that it accepts
	groups []string
	down   bool
	broken bool // it sends a new refresh token, and its other answers fail
	calls  int
}

func (f *fakeProvider) Principal(id run.Identity) (Principal, error) {
	if slices.Contains(id.Groups, "developers") {
		return Principal{Name: id.Name, Scopes: []Scope{Write}, Groups: id.Groups}, nil
	}
	return Principal{}, run.Errorf(run.CodeForbidden, "no binding")
}

func (f *fakeProvider) Refresh(_ context.Context, g Grant, rotated func(string)) (Grant, error) {
	<-time.After(time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	switch {
	case f.down:
		return g, run.Errorf(run.CodeUnavailable, "connection refused")
	case g.RefreshToken != f.valid:
		return g, run.Errorf(run.CodeUnauthenticated, "invalid_grant")
	}
	f.valid += "+"
	rotated(f.valid)
	if f.broken {
		return Grant{RefreshToken: f.valid}, run.Errorf(run.CodeUnavailable, "the user info endpoint answers 500")
	}
	g.RefreshToken, g.Identity.Groups = f.valid, f.groups
	return g, nil
}

// withProvider returns the sessions of two gateways, and a login at the provider.
func withProvider(t *testing.T, refresh string) (a, b *Browsers, p *fakeProvider, secret string) {
	t.Helper()
	a, b, _, _ = twoGateways(t, Read)
	p = &fakeProvider{valid: refresh, groups: []string{"developers"}}
	for _, x := range []*Browsers{a, b} {
		x.Idle = 12 * time.Hour
		x.Confirmation = Confirmation{Provider: p, Every: 10 * time.Minute, Grace: time.Hour}
	}
	login, err := a.BeginIdentity(t.Context(), Grant{
		Identity: run.Identity{Issuer: "https://login", Subject: "1", Name: "ana", Groups: p.groups}, RefreshToken: refresh, IDToken: "the id token",
	}, "Firefox")
	require.NoError(t, err)
	require.Equal(t, "ana", login.Principal.Name)
	require.NotContains(t, login.Session.Sealed, "the id token")
	return a, b, p, login.Secret
}

func TestBrowsers_confirm_with_the_provider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, provider, secret := withProvider(t, "r")
		_, _, err := b.Authenticate(t.Context(), secret)
		require.NoError(t, err)
		require.Zero(t, provider.calls)
		for range 3 {
			<-time.After(11 * time.Minute)
			provider.calls = 0
			errs := make(chan error, 10)
			for range cap(errs) / 2 {
				for _, gateway := range []*Browsers{a, b} {
					go func() {
						_, _, err := gateway.Authenticate(t.Context(), secret)
						errs <- err
					}()
				}
			}
			for range cap(errs) {
				require.NoError(t, <-errs)
			}
			require.Equal(t, 1, provider.calls, "the provider accepts a refresh token once")
		}
		provider.groups = nil
		<-time.After(11 * time.Minute)
		_, _, err = a.Authenticate(t.Context(), secret)
		require.Equal(t, run.CodeForbidden, run.CodeOf(err), "the user left the group")
	})
}

func TestBrowsers_end_with_the_login_at_the_provider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _, provider, secret := withProvider(t, "r")
		provider.valid = "withdrawn"
		<-time.After(11 * time.Minute)
		_, _, err := a.Authenticate(t.Context(), secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))
		require.ErrorContains(t, err, "invalid_grant")
		_, _, err = a.Authenticate(t.Context(), secret)
		require.ErrorContains(t, err, "the session has ended")
		require.Equal(t, 1, provider.calls)
	})
}

func TestBrowsers_provider_down(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _, provider, secret := withProvider(t, "r")
		provider.down = true
		for range 5 {
			<-time.After(11 * time.Minute)
			_, _, err := a.Authenticate(t.Context(), secret)
			require.NoError(t, err, "the login stays valid for a time")
		}
		<-time.After(11 * time.Minute)
		_, _, err := a.Authenticate(t.Context(), secret)
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
		require.ErrorContains(t, err, "connection refused")
		calls := provider.calls
		_, _, err = a.Authenticate(t.Context(), secret)
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
		require.Equal(t, calls, provider.calls, "it is not asked for each request")
		provider.down = false
		<-time.After(confirmAgain + time.Second)
		_, _, err = a.Authenticate(t.Context(), secret)
		require.NoError(t, err)
	})
}

// TestBrowsers_rotated_refresh_token: a refresh token that was replaced is of no use, so the
// new one is stored although the rest of the confirmation failed.
func TestBrowsers_rotated_refresh_token(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, provider, secret := withProvider(t, "r")
		provider.broken = true
		for range 3 {
			<-time.After(11 * time.Minute)
			_, _, err := a.Authenticate(t.Context(), secret)
			require.NoError(t, err, "the login stays valid for a time")
		}
		<-time.After(30 * time.Minute)
		_, _, err := b.Authenticate(t.Context(), secret)
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "nothing confirmed it")
		provider.broken = false
		<-time.After(confirmAgain + time.Second)
		p, _, err := b.Authenticate(t.Context(), secret)
		require.NoError(t, err)
		require.Equal(t, "ana", p.Name)
	})
}

func TestBrowsers_without_refresh_token(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _, provider, secret := withProvider(t, "")
		<-time.After(59 * time.Minute)
		_, _, err := a.Authenticate(t.Context(), secret)
		require.NoError(t, err)
		<-time.After(2 * time.Minute)
		_, _, err = a.Authenticate(t.Context(), secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))
		require.Zero(t, provider.calls)
	})
}

func TestBrowsers_end_for_a_user(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, _, secret := withProvider(t, "r")
		other, err := b.BeginIdentity(t.Context(), Grant{Identity: run.Identity{Issuer: "https://login", Subject: "1", Name: "ana", Groups: []string{"developers"}}}, "")
		require.NoError(t, err)
		g, err := a.End(t.Context(), secret, true)
		require.NoError(t, err)
		require.Equal(t, "the id token", g.IDToken)
		<-time.After(sessionFresh)
		_, _, err = b.Authenticate(t.Context(), other.Secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err), "everywhere")

		// The records of another gateway, without the provider.
		login, err := a.BeginIdentity(t.Context(), Grant{Identity: run.Identity{Issuer: "https://login", Subject: "1", Name: "ana", Groups: []string{"developers"}}}, "")
		require.NoError(t, err)
		b.Confirmation = Confirmation{}
		_, _, err = b.Authenticate(t.Context(), login.Secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))
	})
}
