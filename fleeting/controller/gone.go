package controller

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// endedUnknown returns the listed instances that the ledger lacks and that are gone or
// being deleted. No listing will report them as running.
func (o observed) endedUnknown(rows []row) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o.listed)), func(id string) bool {
		state, present := o.listed.has(id)
		return present && state != fleeting.StateDeleting || slices.ContainsFunc(rows, func(r row) bool { return r.Instance == id })
	})
}

// recordEarlyLosses records machines that were created and lost before a listing
// reported them as running. Each one fulfils a request, unless it may have
// existed before.
func (o observed) recordEarlyLosses(b *changeSet, rows, waiting []row) {
	for _, id := range o.endedUnknown(rows) {
		if o.goneInstances[id] {
			continue
		}
		why := "the plugin lists it as " + string(o.listed[id]) + ", and never listed it as running"
		if len(waiting) > 0 && !o.first {
			b.set(waiting[0], "gone", reasonVanished, why, func(n *records.LedgerRow) {
				n.Instance, n.State, n.CreatedAt, n.GoneAt, n.Acknowledged = id, run.InstanceGone, o.now, o.now, true
			})
			waiting = waiting[1:]
			continue
		}
		r := records.LedgerRow{FleetInstance: run.FleetInstance{
			Instance: id, Cause: run.CauseUnexpected, State: run.InstanceGone, RequestedAt: o.now, CreatedAt: o.now, GoneAt: o.now, Reason: reasonVanished, Message: why,
		}, Acknowledged: true}
		if o.view.Fleet.Status.SeenAt.IsZero() {
			r.Cause = run.CausePreexisted
		}
		b.add(r, "gone")
	}
}

// loadGoneInstances finds which of the instances that ended have a row in the ledger: clouds
// list deleted instances for a while.
func (f *fleet) loadGoneInstances(ctx context.Context, o *observed) error {
	if !slices.ContainsFunc(o.endedUnknown(rowsOf(o.view)), func(id string) bool { return !f.goneInstances[id] }) {
		o.goneInstances = f.goneInstances
		return nil
	}
	all, err := f.w.store.FleetInstances(ctx, f.name, true)
	if err != nil {
		return err
	}
	clear(f.goneInstances) // rows that the ledger has deleted belong to instances that are no longer listed
	for _, i := range all {
		if i.State == run.InstanceGone && i.Instance != "" {
			f.goneInstances[i.Instance] = true
		}
	}
	o.goneInstances = f.goneInstances
	return nil
}

// earlyLoss returns the request of a machine that was lost before it ran.
func earlyLoss(c records.FleetChanges) (r records.LedgerRow, ok bool) {
	for _, change := range c.Set {
		if change.From == run.InstanceRequested && change.State == run.InstanceGone {
			return change.LedgerRow, true
		}
	}
	return r, false
}
