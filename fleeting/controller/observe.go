package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// observed is the result of one observation of a fleet.
type observed struct {
	now  time.Time
	view records.FleetView
	// listed is nil if the plugin was not called.
	listed listing
	// unhealthy are the running instances whose health check failed; well are those
	// that passed it after a failure.
	unhealthy, healthy map[string]bool
	// wasBusy holds the rows that had tasks at the previous observation.
	wasBusy map[int]bool
	// goneInstances are the instances that the ledger records as gone.
	goneInstances map[string]bool
	// first reports whether this is the first observation of this process.
	first bool
}

// observe returns the changes of the ledger that follow from an observation. It
// decides nothing.
func observe(o observed) records.FleetChanges {
	b := &changeSet{now: o.now}
	rows := rowsOf(o.view)
	taken := map[int]string{} // by row that was matched with a new machine
	if o.listed != nil {
		taken = o.matchUnknown(b, rows)
	}
	empty := o.empty(rows)
	for _, r := range rows {
		if id, ok := taken[r.Number]; ok {
			o.recordListed(b, r, id)
			continue
		}
		if empty && r.State == run.InstanceDeleting { // an empty listing does not prove that the instance is gone
			continue
		}
		o.observeRow(b, r)
	}
	return b.changes
}

// empty reports whether the listing is empty although the ledger has several
// instances.
func (o observed) empty(rows []row) bool {
	if o.listed == nil {
		return false
	}
	known := 0
	for _, r := range rows {
		if r.Instance != "" && r.State != run.InstanceDeleting && r.State != run.InstanceIgnored {
			known++
		}
	}
	for id := range o.listed {
		if _, ok := o.listed.has(id); ok {
			return false
		}
	}
	return known > 1
}

// matchUnknown matches machines that the ledger lacks with open requests, oldest
// first. Machines without a request are unexpected.
func (o observed) matchUnknown(b *changeSet, rows []row) map[int]string {
	taken := map[int]string{}
	waiting := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.State != run.InstanceRequested || r.Instance != "" })
	for _, id := range slices.Sorted(maps.Keys(o.listed)) {
		state, ok := o.listed.has(id)
		known := slices.ContainsFunc(rows, func(r row) bool { return r.Instance == id })
		if !ok || known || state == fleeting.StateDeleting {
			continue
		}
		if len(waiting) > 0 {
			taken[waiting[0].Number] = id
			waiting = waiting[1:]
			continue
		}
		o.addUnexpected(b, id, state)
	}
	o.recordEarlyLosses(b, rows, waiting)
	return taken
}

// addUnexpected adds a row for a machine that the fleet did not request.
func (o observed) addUnexpected(b *changeSet, id string, state fleeting.State) {
	r := records.LedgerRow{
		FleetInstance: run.FleetInstance{
			Instance: id, Cause: run.CauseUnexpected, State: run.InstanceCreating, RequestedAt: o.now, CreatedAt: o.now,
			Reason: string(run.CauseUnexpected), Message: "it appeared without a request of the fleet",
		},
		Acknowledged: true,
	}
	if o.view.Fleet.Status.SeenAt.IsZero() {
		r.Cause, r.Reason, r.Message = run.CausePreexisted, string(run.CausePreexisted), "it existed before the first listing of the fleet"
	}
	if state == fleeting.StateRunning {
		r.State, r.RunningAt = run.InstanceBootstrapping, o.now
	}
	r.Revision = o.revisionOfUnexpected(r.Cause)
	switch o.view.Fleet.Spec.Unexpected {
	case run.UnexpectedIgnore:
		r.State = run.InstanceIgnored
		b.add(r, "ignored")
	case run.UnexpectedRemove:
		r.State, r.DrainingAt = run.InstanceDraining, o.now
		b.add(r, "draining")
	default:
		b.add(r, "adopted")
	}
}

// recordListed records that a requested machine exists.
func (o observed) recordListed(b *changeSet, r row, id string) {
	state := o.listed[id]
	kind, text := "creating", "the plugin lists it as "+string(state)
	b.set(r, kind, "listed", text, func(n *records.LedgerRow) {
		n.Instance, n.CreatedAt, n.State, n.Acknowledged = id, o.now, run.InstanceCreating, true
		if state == fleeting.StateRunning {
			n.State, n.RunningAt = run.InstanceBootstrapping, o.now
		}
	})
}

// observeRow records the change of one row. It makes at most one change to it.
func (o observed) observeRow(b *changeSet, r row) {
	if o.listed != nil && r.Instance != "" {
		state, ok := o.listed.has(r.Instance)
		switch {
		case !ok && (r.State == run.InstanceDeleting || r.State == run.InstanceIgnored):
			b.set(r, "gone", r.Reason, goneText(r), func(n *records.LedgerRow) { n.State, n.GoneAt = run.InstanceGone, o.now })
			return
		case !ok:
			o.recordMissing(b, r)
			return
		case state == fleeting.StateRunning && (r.State == run.InstanceRequested || r.State == run.InstanceCreating):
			b.set(r, "running", "listed", "the plugin lists it as running", func(n *records.LedgerRow) {
				n.State, n.RunningAt, n.Misses, n.MissingFrom = run.InstanceBootstrapping, o.now, 0, time.Time{}
			})
			return
		}
	}
	// A machine whose executor has registered runs, even if the plugin lists
	// another state.
	if (r.State == run.InstanceCreating || r.State == run.InstanceBootstrapping) && r.Reason != reasonBootstrap {
		if i := slices.IndexFunc(r.executors, func(e run.Executor) bool { return e.State == run.ExecutorOnline || e.Drained }); i >= 0 {
			b.set(r, "ready", "registered", "executor "+r.executors[i].ID+" serves pool "+r.executors[i].Pool, func(n *records.LedgerRow) {
				n.State, n.ReadyAt, n.Executor, n.Failures = run.InstanceReady, o.now, r.executors[i].ID, 0
				if n.RunningAt.IsZero() {
					n.RunningAt = o.now
				}
			})
			return
		}
	}
	o.updateCounters(b, r)
}

func goneText(r row) string {
	if r.State == run.InstanceIgnored {
		return "it is no longer listed"
	}
	return "it was deleted: " + r.Message
}

// recordMissing records that a machine is not listed. The reason of the row stays,
// unless its executor is in contact.
func (o observed) recordMissing(b *changeSet, r row) {
	next := r
	next.Misses++
	if next.MissingFrom.IsZero() {
		next.MissingFrom = o.now
	}
	change := func(n *records.LedgerRow) { n.Misses, n.MissingFrom = next.Misses, next.MissingFrom }
	if next.unlisted() && !r.terminating() && r.Reason != reasonUnlisted && r.Reason != reasonBootstrap {
		text := fmt.Sprintf("%d listings in a row lack it, and its executor is in contact: it takes no new tasks, and stays", next.Misses)
		b.set(r, reasonUnlisted, reasonUnlisted, text, func(n *records.LedgerRow) {
			change(n)
			n.Reason = reasonUnlisted
		})
		return
	}
	kind, text := "", ""
	if r.Misses == 0 {
		kind, text = "missing", "the plugin does not list it"
	}
	previous := r.Message
	b.set(r, kind, r.Reason, text, change)
	b.changes.Set[len(b.changes.Set)-1].Message = previous
}

// updateCounters updates counters and times; most of these changes need no event.
func (o observed) updateCounters(b *changeSet, r row) {
	next := r.LedgerRow
	next.Uses = r.uses()
	if o.listed != nil && r.Misses > 0 { // listed again: recordMissing handles unlisted rows
		next.Misses, next.MissingFrom = 0, time.Time{}
	}
	switch {
	case o.unhealthy[r.Instance]:
		next.Failures++
	case o.healthy[r.Instance]:
		next.Failures = 0
	}
	busy := r.busy()
	if next.Uses != r.Uses || o.wasBusy[r.Number] && busy == 0 {
		next.LastUsed = o.now
	}
	if r.State == run.InstanceReady && len(r.executors) > 0 {
		next.Executor = r.executors[0].ID
	}
	if next == r.LedgerRow {
		return
	}
	c := records.LedgerChange{LedgerRow: next, From: r.State}
	if next.Misses == 0 && r.Reason == reasonUnlisted {
		c.Reason, c.Message = "listed", "the plugin lists it again"
		c.Event = &run.FleetEvent{At: o.now, Kind: "listed", By: actorFleet, Reason: c.Reason, Text: c.Message}
	}
	if next.Failures > r.Failures {
		c.Event = &run.FleetEvent{At: o.now, Kind: "unhealthy", By: actorFleet, Reason: "health_check", Text: fmt.Sprintf("health check failed %d times in a row", next.Failures)}
	}
	b.changes.Set = append(b.changes.Set, c)
}

// revisionOfUnexpected returns the revision of a machine without a request. Soon
// after a change of the settings, such a machine may belong to a request before
// the change that was given up: it counts as one of the earlier revision.
func (o observed) revisionOfUnexpected(cause run.InstanceCause) int {
	f := o.view.Fleet
	timeout := cmp.Or(f.Spec.RequestTimeout.Std(), scaling.DefaultRequestTimeout)
	if cause == run.CauseUnexpected && f.Revision > 1 && o.now.Sub(f.RolloutSince) < timeout {
		return f.Revision - 1
	}
	return f.Revision
}
