package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const (
	// connectExpiryMargin is how long before its expiry connect info counts as
	// expired.
	connectExpiryMargin = time.Minute
	// maxConnectAttempts bounds the calls for one instance's connect info if the
	// plugin's process exits meanwhile. Real plugins exit when they are asked
	// about an instance that has vanished, and then answer no other call
	// either.
	maxConnectAttempts = 5
	// maxListingAge is the maximum age of a listing that cachedConnectInfo
	// relies on.
	maxListingAge = 5 * time.Second
)

// Bootstrap turns an instance into an executor. The ledger records the outcome:
// an instance whose bootstrap failed is deleted. Bootstrap fails only if the
// records fail or the context ends.
func (w *Worker) Bootstrap(ctx context.Context, name string, number int) error {
	f := w.fleet(name)
	v, err := w.store.ViewFleet(ctx, name)
	if run.CodeOf(err) == run.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range rowsOf(v) {
		if r.Number != number || r.State != run.InstanceBootstrapping {
			continue
		}
		begin := w.now()
		booting, done := f.startBootstrap(ctx, number)
		err := f.bootstrap(booting, v.Fleet, r)
		done()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			w.logger.InfoContext(ctx, "instance bootstrapped", "fleet", name, "instance", r.Instance, "took", w.now().Sub(begin))
			return nil
		}
		return f.notBootstrapped(ctx, number, err)
	}
	return nil
}

// notBootstrapped records why an instance did not become an executor.
func (f *fleet) notBootstrapped(ctx context.Context, number int, why error) error {
	f.ledgerMu.Lock()
	defer f.ledgerMu.Unlock()
	v, err := f.w.store.ViewFleet(ctx, f.name)
	if err != nil {
		return ignoreGone(err)
	}
	b := &changeSet{now: f.w.now()}
	for _, r := range rowsOf(v) {
		if r.Number == number && r.State == run.InstanceBootstrapping {
			b.set(r, reasonBootstrap, reasonBootstrap, "it did not become an executor: "+oneLine(why), func(*records.LedgerRow) {})
		}
	}
	return f.write(ctx, v, b.changes)
}

// errNotBootstrapping cancels a bootstrap whose instance is gone or being
// deleted.
var errNotBootstrapping = errors.New("the instance is no longer bootstrapping")

// startBootstrap returns the context of a bootstrap. It ends when the instance enters
// another state in the ledger.
func (f *fleet) startBootstrap(ctx context.Context, number int) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bootstraps[number] = cancel
	return ctx, func() {
		cancel(nil)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.bootstraps, number)
	}
}

// cancelStaleBootstraps cancels the bootstraps of instances that are no longer bootstrapping
// according to the ledger.
func (f *fleet) cancelStaleBootstraps(rows []row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for number, cancel := range f.bootstraps {
		at := slices.IndexFunc(rows, func(r row) bool { return r.Number == number })
		if at < 0 || rows[at].terminating() {
			cancel(errNotBootstrapping)
		}
	}
}

func (f *fleet) bootstrap(ctx context.Context, spec run.Fleet, r row) error {
	if f.w.bootstrap == nil {
		return fmt.Errorf("this worker does not support bootstrap %s", spec.Spec.BootstrapMethod())
	}
	c, err := f.cachedConnectInfo(ctx, spec, r.Instance)
	if err != nil {
		return err
	}
	return f.w.bootstrap.Bootstrap(ctx, Instance{Fleet: f.name, Spec: spec.Spec, Number: r.Number, ID: r.Instance}, c)
}

// cachedConnectInfo returns the connect info of an instance. It caches the info, because
// the call may have side effects in the cloud.
func (f *fleet) cachedConnectInfo(ctx context.Context, spec run.Fleet, id string) (fleeting.ConnectInfo, error) {
	f.mu.Lock()
	known, ok := f.connects[id]
	f.mu.Unlock()
	if ok && (known.Expires.IsZero() || f.w.now().Before(known.Expires.Add(-connectExpiryMargin))) {
		return known, nil
	}
	known, err := f.fetchConnectInfo(ctx, spec, id)
	if err != nil {
		return known, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.connects) > 10_000 { // most belong to deleted machines
		clear(f.connects)
	}
	f.connects[id] = known
	return known, nil
}

// fetchConnectInfo calls the plugin for the connect info of an instance that it lists as
// running. If the plugin's process exits, it lists and calls again.
func (f *fleet) fetchConnectInfo(ctx context.Context, spec run.Fleet, id string) (known fleeting.ConnectInfo, err error) {
	since := f.w.now().Add(-maxListingAge)
	for try := 1; ; try++ {
		var found listing
		if found, err = f.listedSince(ctx, spec, since); err == nil {
			if state, _ := found.has(id); state != fleeting.StateRunning {
				return known, errors.New("the plugin no longer lists it as running")
			}
			var group Group
			if group, err = f.group.get(ctx, f.w.open, spec); err == nil {
				known, err = group.ConnectInfo(ctx, id)
			}
		}
		if err == nil || !errors.Is(err, fleeting.ErrUnavailable) || try == maxConnectAttempts {
			return known, err
		}
		since = f.w.now()
		if err := retry.Sleep(ctx, spec.Spec.Interval(true)); err != nil {
			return known, err
		}
	}
}

// listedSince returns a listing that is not older than since.
func (f *fleet) listedSince(ctx context.Context, spec run.Fleet, since time.Time) (listing, error) {
	f.listMu.Lock()
	defer f.listMu.Unlock()
	f.mu.Lock()
	last, at := f.last, f.lastAt
	f.mu.Unlock()
	if last != nil && !at.Before(since) {
		return last, nil
	}
	_, found, err := f.list(ctx, spec)
	return found, err
}
