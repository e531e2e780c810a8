package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
)

// forgettable is a store with expired rows.
type forgettable struct {
	mu        sync.Mutex
	executors int
	instances int
	batches   []int
	before    time.Time
	err       error
}

func (f *forgettable) take(left *int, before time.Time, n int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
	n = min(n, *left)
	*left -= n
	f.batches, f.before = append(f.batches, n), before
	return n, nil
}

func (f *forgettable) ForgetExecutors(_ context.Context, before time.Time, n int) (int, error) {
	return f.take(&f.executors, before, n)
}

func (f *forgettable) ForgetInstances(_ context.Context, before time.Time, n int) (int, error) {
	return f.take(&f.instances, before, n)
}

func TestRegistryExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		store := &forgettable{executors: 250, instances: 1}
		begin, done := time.Now(), make(chan error)
		go func() {
			done <- NewRegistryExpiry(store, 24*time.Hour, time.Hour, 1, slog.New(slog.DiscardHandler)).Run(ctx)
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Zero(t, store.executors+store.instances)
		require.ElementsMatch(t, []int{100, 100, 50, 1}, store.batches)
		require.WithinDuration(t, begin.Add(-24*time.Hour), store.before, 5*time.Second)

		store.mu.Lock()
		store.executors, store.err = 5, errors.New("out of reach")
		store.mu.Unlock()
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, 5, store.executors)
		store.mu.Lock()
		store.err = nil
		store.mu.Unlock()
		<-time.After(time.Hour)
		synctest.Wait()
		require.Zero(t, store.executors, "a failure ends one round only")
		stop()
		require.NoError(t, <-done)
	})
}

func TestRegistryExpiry_without_an_age(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		store := &forgettable{executors: 1}
		done := make(chan error)
		go func() { done <- NewRegistryExpiry(store, 0, time.Hour, 100, slog.New(slog.DiscardHandler)).Run(ctx) }()
		<-time.After(24 * time.Hour)
		synctest.Wait()
		require.Empty(t, store.batches)
		stop()
		require.NoError(t, <-done)
	})
}

// auditRecords is an audit log with expired records.
type auditRecords struct {
	records.Audit
	forgettable
}

func (a *auditRecords) ForgetAudit(_ context.Context, before time.Time, n int) (int, error) {
	return a.take(&a.executors, before, n)
}

func TestAuditExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		store := &auditRecords{forgettable: forgettable{executors: 150}}
		begin, done := time.Now(), make(chan error)
		go func() {
			done <- NewAuditExpiry(store, 400*24*time.Hour, time.Hour, 1, slog.New(slog.DiscardHandler)).Run(ctx)
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, []int{100, 50}, store.batches)
		require.WithinDuration(t, begin.Add(-400*24*time.Hour), store.before, 5*time.Second)
		stop()
		require.NoError(t, <-done)
	})
}
