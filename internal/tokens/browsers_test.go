package tokens

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// fakeBrowsers is a BrowserStore that several gateways share.
type fakeBrowsers struct {
	mu       sync.Mutex
	sessions map[string]run.BrowserSession
	reads    int
}

func (f *fakeBrowsers) CreateBrowserSession(_ context.Context, s run.BrowserSession) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[s.Hash] = s
	return nil
}

func (f *fakeBrowsers) ReadBrowserSession(_ context.Context, hash string) (run.BrowserSession, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	s, ok := f.sessions[hash]
	if !ok {
		return s, run.Errorf(run.CodeNotFound, "there is no such session")
	}
	return s, nil
}

func (f *fakeBrowsers) RecordBrowserUses(_ context.Context, uses map[string]time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for hash, at := range uses {
		if s, ok := f.sessions[hash]; ok {
			s.LastUsed = at
			f.sessions[hash] = s
		}
	}
	return nil
}

func (f *fakeBrowsers) EndBrowserSession(_ context.Context, hash string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sessions, hash)
	return nil
}

func (f *fakeBrowsers) EndBrowserSessions(_ context.Context, token string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for hash, s := range f.sessions {
		if s.Token == token {
			delete(f.sessions, hash)
		}
	}
	return nil
}

func (f *fakeBrowsers) ClaimBrowserConfirmation(_ context.Context, hash string, expected, next time.Time) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.sessions[hash]
	if !ok || !s.ConfirmAfter.Equal(expected) {
		return false, nil
	}
	s.ConfirmAfter = next
	f.sessions[hash] = s
	return true, nil
}

func (f *fakeBrowsers) ConfirmBrowserSession(_ context.Context, s run.BrowserSession) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.sessions[s.Hash]; ok {
		f.sessions[s.Hash] = s
	}
	return nil
}

func (f *fakeBrowsers) ForgetBrowserSessions(_ context.Context, unused time.Time, _ int) (n int, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for hash, s := range f.sessions {
		if s.LastUsed.Before(unused) || s.Expires.Before(time.Now()) {
			delete(f.sessions, hash)
			n++
		}
	}
	return n, nil
}

// twoGateways returns the sessions of two gateways with one store, and a token.
func twoGateways(t *testing.T, scopes ...Scope) (a, b *Browsers, store *fakeBrowsers, token string) {
	t.Helper()
	token = New()
	list, err := NewList([]Token{{Name: "ana", Hash: Hash(token), Scopes: scopes}})
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	registry := NewRegistry(t.Context(), list, newFakeRecords(), log)
	store = &fakeBrowsers{sessions: map[string]run.BrowserSession{}}
	return NewBrowsers(registry, store, time.Hour, 24*time.Hour, log), NewBrowsers(registry, store, time.Hour, 24*time.Hour, log), store, token
}

func TestBrowsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, store, token := twoGateways(t, Write)
		_, err := a.Begin(t.Context(), "drover_wrong", "")
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))
		login, err := a.Begin(t.Context(), token, "Firefox")
		require.NoError(t, err)
		secret, s := login.Secret, login.Session
		require.True(t, login.Principal.Allows(Write))
		require.Equal(t, "ana", s.Name)
		require.NotContains(t, s.Hash, secret)
		for _, gateway := range []*Browsers{a, b} {
			p, _, err := gateway.Authenticate(t.Context(), secret)
			require.NoError(t, err)
			require.Equal(t, "ana", p.Name)
			require.True(t, p.Allows(Write))
			require.False(t, p.Allows(Admin))
		}
		reads := store.reads
		_, _, err = a.Authenticate(t.Context(), secret)
		require.NoError(t, err)
		require.Equal(t, reads, store.reads, "a session that was read a moment ago is not read again")
		_, _, err = a.Authenticate(t.Context(), secret+"x")
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))

		_, err = a.End(t.Context(), secret, false)
		require.NoError(t, err)
		_, err = a.End(t.Context(), secret, false)
		require.NoError(t, err, "it has ended already")
		_, _, err = a.Authenticate(t.Context(), secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))
		<-time.After(sessionFresh)
		_, _, err = b.Authenticate(t.Context(), secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err), "the other gateway knows it a moment later")
	})
}

func TestBrowsers_expire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _, store, token := twoGateways(t, Read)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = a.Run(ctx) }()
		used, err := a.Begin(t.Context(), token, "")
		require.NoError(t, err)
		unused, err := a.Begin(t.Context(), token, "")
		require.NoError(t, err)
		for range 23 {
			<-time.After(59 * time.Minute)
			_, _, err = a.Authenticate(t.Context(), used.Secret)
			require.NoError(t, err)
		}
		_, _, err = a.Authenticate(t.Context(), unused.Secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err), "it was not used for an hour")
		<-time.After(59 * time.Minute)
		_, _, err = a.Authenticate(t.Context(), used.Secret)
		require.NoError(t, err)
		<-time.After(59 * time.Minute)
		_, _, err = a.Authenticate(t.Context(), used.Secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err), "it began a day ago")
		<-time.After(2 * recordEvery)
		synctest.Wait()
		require.Empty(t, store.sessions)
	})
}

func TestBrowsers_end_with_their_token(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, store, token := twoGateways(t, Read)
		first, err := a.Begin(t.Context(), token, "")
		require.NoError(t, err)
		second, err := b.Begin(t.Context(), token, "")
		require.NoError(t, err)
		_, err = a.End(t.Context(), first.Secret, true)
		require.NoError(t, err)
		require.Empty(t, store.sessions, "everywhere")
		<-time.After(sessionFresh)
		_, _, err = b.Authenticate(t.Context(), second.Secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))

		third, err := a.Begin(t.Context(), token, "")
		require.NoError(t, err)
		_, err = a.registry.RevokeToken(t.Context(), "ana", "ops")
		require.NoError(t, err)
		_, _, err = a.Authenticate(t.Context(), third.Secret)
		require.Equal(t, run.CodeTokenRevoked, run.CodeOf(err))
		_, err = a.Begin(t.Context(), token, "")
		require.Equal(t, run.CodeTokenRevoked, run.CodeOf(err))
	})
}

func TestBrowsers_refuse_executors(t *testing.T) {
	t.Parallel()
	a, _, _, token := twoGateways(t, Executor)
	_, err := a.Begin(t.Context(), token, "")
	require.Equal(t, run.CodeForbidden, run.CodeOf(err))
}

// A request that lasts is no further use of its session, which ends as idle.
func TestBrowsers_Recheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, store, token := twoGateways(t, Write)
		login, err := a.Begin(t.Context(), token, "")
		require.NoError(t, err)
		for range 10 {
			<-time.After(5 * time.Minute)
			p, err := b.Recheck(t.Context(), login.Secret)
			require.NoError(t, err)
			require.Equal(t, "ana", p.Name)
		}
		reads := store.reads
		for range 10 {
			_, err := b.Recheck(t.Context(), login.Secret)
			require.NoError(t, err)
		}
		require.Equal(t, reads, store.reads, "it is not read each time")
		<-time.After(11 * time.Minute)
		_, err = b.Recheck(t.Context(), login.Secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))
		require.ErrorContains(t, err, "has expired")
	})
}

// A session that has just been ended at another gateway gives and takes no rights.
func TestBrowsers_Reaffirm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, _, token := twoGateways(t, Admin)
		login, err := a.Begin(t.Context(), token, "")
		require.NoError(t, err)
		p, err := b.Reaffirm(t.Context(), login.Secret)
		require.NoError(t, err)
		require.Equal(t, "ana", p.Name)
		_, err = a.End(t.Context(), login.Secret, false)
		require.NoError(t, err)
		_, err = b.Recheck(t.Context(), login.Secret)
		require.NoError(t, err, "it was read a moment ago")
		_, err = b.Reaffirm(t.Context(), login.Secret)
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err))
	})
}
