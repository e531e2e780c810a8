package tokens

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// fakeRecords is a Store that several gateways share.
type fakeRecords struct {
	mu      sync.Mutex
	records map[string]run.TokenRecord
	writes  int
	err     error
}

func newFakeRecords() *fakeRecords { return &fakeRecords{records: map[string]run.TokenRecord{}} }

func (f *fakeRecords) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeRecords) TokenRecords(_ context.Context, revoked bool) (out []run.TokenRecord, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.records {
		if !revoked || !x.RevokedAt.IsZero() || x.Entry != nil {
			out = append(out, x)
		}
	}
	return out, f.err
}

func (f *fakeRecords) CreateToken(_ context.Context, r run.TokenRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.records {
		if x.Entry != nil && x.Name == r.Name {
			return run.Errorf(run.CodeConflict, "there is a token named %s", r.Name)
		}
	}
	f.records[r.Hash] = r
	return f.err
}

func (f *fakeRecords) RecordTokenUses(_ context.Context, uses []run.TokenRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	f.writes++
	for _, u := range uses {
		x := f.records[u.Hash]
		x.Hash, x.Name, x.LastUsed = u.Hash, u.Name, u.LastUsed
		f.records[u.Hash] = x
	}
	return nil
}

func (f *fakeRecords) RecordTokenRevocation(_ context.Context, r run.TokenRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.records[r.Hash]
	x.Hash, x.Name, x.RevokedAt, x.RevokedBy = r.Hash, r.Name, time.Now(), r.RevokedBy
	f.records[r.Hash] = x
	return f.err
}

func (f *fakeRecords) lastUsed(token string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records[Hash(token)].LastUsed
}

func listOf(t *testing.T, entries ...Token) *List {
	t.Helper()
	list, err := NewList(entries)
	require.NoError(t, err)
	return list
}

func entry(name, token string) Token {
	return Token{Name: name, Hash: Hash(token), Scopes: []Scope{Read}}
}

// code authenticates a token and returns the code of the refusal, "" for none.
func code(auth Authenticator, token string) run.Code {
	_, err := Check(auth, []string{"Bearer " + token})
	return run.CodeOf(err)
}

// TestRegistry_revokes: a token that is revoked at one gateway is refused there at
// once, and at the others within ten seconds; another token of its name is not.
func TestRegistry_revokes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		store, logger := newFakeRecords(), slog.New(slog.DiscardHandler)
		list := listOf(t, entry("ci", "one"), entry("ops", "two"))
		first, second := NewRegistry(ctx, list, store, logger), NewRegistry(ctx, list, store, logger)
		for _, r := range []*Registry{first, second} {
			go func() { _ = r.Run(ctx) }()
			require.Empty(t, code(r, "one"))
		}
		revoked, err := first.RevokeToken(ctx, "ci", "ops")
		require.NoError(t, err)
		require.Equal(t, "ops", revoked.RevokedBy)
		require.Equal(t, run.CodeTokenRevoked, code(first, "one"))
		require.Empty(t, code(first, "two"))
		<-time.After(10 * time.Second)
		require.Equal(t, run.CodeTokenRevoked, code(second, "one"))

		store.fail(errors.New("out of reach"))
		<-time.After(time.Minute)
		require.Equal(t, run.CodeTokenRevoked, code(second, "one"), "also while the records are away")
		store.fail(nil)
		require.Equal(t, run.CodeTokenRevoked, code(NewRegistry(ctx, list, store, logger), "one"), "also after a restart")
		replaced := NewRegistry(ctx, listOf(t, entry("ci", "three")), store, logger)
		require.Empty(t, code(replaced, "three"))
		require.Equal(t, run.CodeUnauthenticated, code(replaced, "one"))

		_, err = first.RevokeToken(ctx, "unknown", "ops")
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	})
}

// TestRegistry_needs_the_revocations: tokens are refused until the revocations
// were read once.
func TestRegistry_needs_the_revocations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		store := newFakeRecords()
		store.fail(errors.New("out of reach"))
		r := NewRegistry(ctx, listOf(t, entry("ci", "one")), store, slog.New(slog.DiscardHandler))
		go func() { _ = r.Run(ctx) }()
		require.Equal(t, run.CodeUnavailable, code(r, "one"))
		require.Equal(t, run.CodeUnauthenticated, code(r, "other"))
		store.fail(nil)
		<-time.After(2 * refreshEvery)
		synctest.Wait()
		require.Empty(t, code(r, "one"))
	})
}

// TestRegistry_records_uses: the last use is written at most once a minute, also
// the last ones before a stop, and a failure delays it.
func TestRegistry_records_uses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		store := newFakeRecords()
		r := NewRegistry(ctx, listOf(t, entry("ci", "one"), entry("idle", "two")), store, slog.New(slog.DiscardHandler))
		done := make(chan struct{})
		go func() {
			_ = r.Run(ctx)
			close(done)
		}()
		for range 5 * 60 {
			require.Empty(t, code(r, "one"))
			<-time.After(time.Second)
		}
		synctest.Wait()
		require.LessOrEqual(t, store.writes, 5)
		require.WithinDuration(t, time.Now(), store.lastUsed("one"), 70*time.Second)

		list, err := r.ListTokens(ctx)
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.WithinDuration(t, time.Now(), list[0].LastUsed, 2*time.Second, "this gateway knows its own uses at once")
		require.Zero(t, list[1].LastUsed)

		store.fail(errors.New("out of reach"))
		require.Empty(t, code(r, "two"))
		used := time.Now()
		<-time.After(3 * time.Minute)
		store.fail(nil)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		require.WithinDuration(t, used, store.lastUsed("two"), 0)

		require.Empty(t, code(r, "one"))
		used = time.Now()
		stop()
		<-done
		require.WithinDuration(t, used, store.lastUsed("one"), 0)
	})
}

func TestList_expiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	limited := entry("ci", "one")
	limited.Expires = now.Add(time.Hour)
	list := listOf(t, limited, entry("ops", "two"))
	list.now = func() time.Time { return now }
	require.Empty(t, code(list, "one"))
	now = now.Add(time.Hour)
	_, err := Check(list, []string{"Bearer one"})
	require.Equal(t, run.CodeTokenExpired, run.CodeOf(err))
	require.EqualError(t, err, "token ci expired at 2026-01-02T04:04:05Z")
	require.Empty(t, code(list, "two"))
}
