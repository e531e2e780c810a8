package fleets

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// connectFresh is how long before its end connect info counts as expired.
const connectFresh = time.Minute

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
		err := f.bootstrap(ctx, v.Fleet, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			w.logger.InfoContext(ctx, "instance bootstrapped", "fleet", name, "instance", r.Instance, "took", w.now().Sub(begin))
			return nil
		}
		b := &book{now: w.now()}
		b.set(r, reasonBootstrap, reasonBootstrap, "it did not become an executor: "+oneLine(err), func(*records.LedgerRow) {})
		return f.write(ctx, v, b.changes)
	}
	return nil
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
	group, err := f.group.get(ctx, f.w.open, spec)
	if err != nil {
		return known, err
	}
	if known, err = group.ConnectInfo(ctx, id); err != nil {
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
