package fleets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const (
	// connectFresh is how long before its end connect info counts as expired.
	connectFresh = time.Minute
	// connectTries is how often a plugin is asked how to reach an instance where
	// its process ends meanwhile: asked about one that has vanished, real plugins
	// end, and answer for none of the others.
	connectTries = 5
	// listingFresh is how old a listing may be by which it is asked.
	listingFresh = 5 * time.Second
)

// Bootstrap makes an executor of an instance. What came of it is in the ledger:
// one that failed goes. It fails only where the records do, or its end is
// wanted.
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
		booting, done := f.booting(ctx, number)
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

// notBootstrapped notes why an instance did not become an executor.
func (f *fleet) notBootstrapped(ctx context.Context, number int, why error) error {
	f.looking.Lock()
	defer f.looking.Unlock()
	v, err := f.w.store.ViewFleet(ctx, f.name)
	if err != nil {
		return ignoreGone(err)
	}
	b := &book{now: f.w.now()}
	for _, r := range rowsOf(v) {
		if r.Number == number && r.State == run.InstanceBootstrapping {
			b.set(r, reasonBootstrap, reasonBootstrap, "it did not become an executor: "+oneLine(why), func(*records.LedgerRow) {})
		}
	}
	return f.write(ctx, v, b.changes)
}

// errNotBootstrapping ends a bootstrap whose instance is gone, or goes.
var errNotBootstrapping = errors.New("the instance is not bootstrapped any more")

// booting returns the context of a bootstrap, which ends where the ledger has
// the instance in another state.
func (f *fleet) booting(ctx context.Context, number int) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boots[number] = cancel
	return ctx, func() {
		cancel(nil)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.boots, number)
	}
}

// endBoots ends the bootstraps of instances that the ledger does not have as
// bootstrapping.
func (f *fleet) endBoots(rows []row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for number, cancel := range f.boots {
		at := slices.IndexFunc(rows, func(r row) bool { return r.Number == number })
		if at < 0 || rows[at].leaving() {
			cancel(errNotBootstrapping)
		}
	}
}

func (f *fleet) bootstrap(ctx context.Context, spec run.Fleet, r row) error {
	if f.w.bootstrap == nil {
		return fmt.Errorf("this worker knows no bootstrap %s", spec.Spec.BootstrapWay())
	}
	c, err := f.connect(ctx, spec, r.Instance)
	if err != nil {
		return err
	}
	return f.w.bootstrap.Bootstrap(ctx, Instance{Fleet: f.name, Spec: spec.Spec, Number: r.Number, ID: r.Instance}, c)
}

// connect asks how to reach an instance, once: asking may leave traces.
func (f *fleet) connect(ctx context.Context, spec run.Fleet, id string) (fleeting.ConnectInfo, error) {
	f.mu.Lock()
	known, ok := f.connects[id]
	f.mu.Unlock()
	if ok && (known.Expires.IsZero() || f.w.now().Before(known.Expires.Add(-connectFresh))) {
		return known, nil
	}
	known, err := f.ask(ctx, spec, id)
	if err != nil {
		return known, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.connects) > 10_000 { // of machines long gone
		clear(f.connects)
	}
	f.connects[id] = known
	return known, nil
}

// ask asks the plugin how to reach an instance that it lists as running. It
// asks again where the plugin's process ended, by what it lists then.
func (f *fleet) ask(ctx context.Context, spec run.Fleet, id string) (known fleeting.ConnectInfo, err error) {
	since := f.w.now().Add(-listingFresh)
	for try := 1; ; try++ {
		var found listing
		if found, err = f.listedSince(ctx, spec, since); err == nil {
			if state, _ := found.has(id); state != fleeting.StateRunning {
				return known, errors.New("the plugin does not list it as running any more")
			}
			var group Group
			if group, err = f.group.get(ctx, f.w.open, spec); err == nil {
				known, err = group.ConnectInfo(ctx, id)
			}
		}
		if err == nil || !errors.Is(err, fleeting.ErrUnavailable) || try == connectTries {
			return known, err
		}
		since = f.w.now()
		if err := pause(ctx, spec.Spec.Interval(true)); err != nil {
			return known, err
		}
	}
}

// listedSince returns a listing that is no older than it says.
func (f *fleet) listedSince(ctx context.Context, spec run.Fleet, since time.Time) (listing, error) {
	f.asking.Lock()
	defer f.asking.Unlock()
	f.mu.Lock()
	last, at := f.last, f.lastAt
	f.mu.Unlock()
	if last != nil && !at.Before(since) {
		return last, nil
	}
	_, found, err := f.list(ctx, spec)
	return found, err
}
