package fleets

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// over returns the listed instances that the ledger lacks and that are gone or
// being deleted. No listing will report them as running.
func (o observed) over(rows []row) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o.listed)), func(id string) bool {
		state, there := o.listed.has(id)
		return there && state != fleeting.StateDeleting || slices.ContainsFunc(rows, func(r row) bool { return r.Instance == id })
	})
}

// lostAtOnce records machines that were created and lost before a listing
// reported them as running. Each one fulfils a request, unless it may have
// existed before.
func (o observed) lostAtOnce(b *book, rows, waiting []row) {
	for _, id := range o.over(rows) {
		if o.buried[id] {
			continue
		}
		why := "the plugin lists it as " + string(o.listed[id]) + ", and never listed it as running"
		if len(waiting) > 0 && !o.first {
			b.set(waiting[0], "gone", reasonVanished, why, func(n *records.LedgerRow) {
				n.Instance, n.State, n.CreatedAt, n.GoneAt, n.Told = id, run.InstanceGone, o.now, o.now, true
			})
			waiting = waiting[1:]
			continue
		}
		r := records.LedgerRow{FleetInstance: run.FleetInstance{
			Instance: id, Cause: run.CauseUnexpected, State: run.InstanceGone, AskedAt: o.now, CreatedAt: o.now, GoneAt: o.now, Reason: reasonVanished, Why: why,
		}, Told: true}
		if o.view.Fleet.Status.SeenAt.IsZero() {
			r.Cause = run.CausePreexisted
		}
		b.add(r, "gone")
	}
}

// bury finds which of the instances that ended have a row in the ledger: clouds
// list deleted instances for a while.
func (f *fleet) bury(ctx context.Context, o *observed) error {
	if !slices.ContainsFunc(o.over(rowsOf(o.view)), func(id string) bool { return !f.buried[id] }) {
		o.buried = f.buried
		return nil
	}
	all, err := f.w.store.FleetInstances(ctx, f.name, true)
	if err != nil {
		return err
	}
	clear(f.buried) // rows that the ledger has deleted belong to instances that are no longer listed
	for _, i := range all {
		if i.State == run.InstanceGone && i.Instance != "" {
			f.buried[i.Instance] = true
		}
	}
	o.buried = f.buried
	return nil
}

// lostRequest returns the request of a machine that was lost before it ran.
func lostRequest(c records.FleetChanges) (r records.LedgerRow, ok bool) {
	for _, change := range c.Set {
		if change.From == run.InstanceRequested && change.State == run.InstanceGone {
			return change.LedgerRow, true
		}
	}
	return r, false
}
