package controller

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Timeouts that are not configurable.
const (
	// offlineTimeout is how long an executor may be out of contact before its
	// instance counts as unhealthy. It is longer than a restart of the agent.
	offlineTimeout = time.Minute
	// settleTimeout is how long a machine may take to be listed after a request
	// that the plugin may not have received.
	settleTimeout = 10 * time.Second
	// quotaTimeout is how long a quota reserves capacity for a fleet whose
	// plugin does not list, or that has no worker. It is longer than a restart
	// of the worker or the plugin.
	quotaTimeout = 5 * time.Minute
)

// actorFleet is the author of changes that no operator made.
const actorFleet = "fleet"

// row is a row of the ledger with the executors that registered from its
// instance.
type row struct {
	records.LedgerRow
	executors []run.Executor
}

// rowsOf returns the rows of a view with their executors.
func rowsOf(v records.FleetView) []row {
	out := make([]row, len(v.Instances))
	for i, r := range v.Instances {
		out[i].LedgerRow = r
		for _, e := range v.Executors {
			if r.Instance != "" && e.Instance == r.Instance {
				out[i].executors = append(out[i].executors, e)
			}
		}
		// Newest first: an agent that lost its state registers as another
		// executor.
		slices.SortFunc(out[i].executors, func(a, b run.Executor) int {
			return cmp.Or(b.RegisteredAt.Compare(a.RegisteredAt), cmp.Compare(a.ID, b.ID))
		})
	}
	return out
}

func (r row) terminating() bool {
	return r.State == run.InstanceDraining || r.State == run.InstanceDeleting
}

// busy returns the tasks that the instance holds; uses returns the tasks that
// it has claimed.
func (r row) busy() (n int) {
	for _, e := range r.executors {
		n += e.Tasks
	}
	return n
}

func (r row) uses() (n int) {
	for _, e := range r.executors {
		n += e.Uses
	}
	return max(n, r.Uses)
}

// inContact reports whether any of its executors is in contact.
func (r row) inContact() bool {
	return slices.ContainsFunc(r.executors, func(e run.Executor) bool { return e.State != run.ExecutorOffline })
}

// lastContact returns the latest contact of its executors.
func (r row) lastContact() (last time.Time) {
	for _, e := range r.executors {
		if e.LastContact.After(last) {
			last = e.LastContact
		}
	}
	return last
}

// drained reports whether none of its executors holds a task or can claim one.
func (r row) drained() bool {
	for _, e := range r.executors {
		switch {
		case e.Tasks > 0:
			return false
		case e.State == run.ExecutorDraining && e.Drained:
		case e.State == run.ExecutorOffline && r.State == run.InstanceDraining:
			// Claims of a draining executor are refused.
		default:
			return false
		}
	}
	return true
}

// unhealthy returns the reason why the instance must not be used, or "".
func (r row) unhealthy(now time.Time, threshold int) string {
	switch {
	case r.Failures >= threshold:
		return strconv.Itoa(r.Failures) + " consecutive health checks failed"
	case r.State == run.InstanceReady && len(r.executors) == 0:
		return "its executor was removed"
	case r.State == run.InstanceReady && !r.inContact() && now.Sub(r.lastContact()) > offlineTimeout:
		return "its executor has been out of contact since " + r.lastContact().UTC().Format(time.RFC3339)
	}
	return ""
}

// scalingInstance returns the instance in the form that the policy reads.
func (r row) scalingInstance(now time.Time, threshold int) scaling.Instance {
	idle := r.ReadyAt
	if r.LastUsed.After(idle) {
		idle = r.LastUsed
	}
	state := scaling.State(r.State)
	if r.missed() { // like a draining instance, it takes no tasks
		state = scaling.StateDraining
	}
	return scaling.Instance{
		ID: strconv.Itoa(r.Number), State: state, RequestedAt: r.RequestedAt, IdleSince: idle,
		Busy: r.busy(), Used: r.uses(), Unhealthy: r.unhealthy(now, threshold) != "",
	}
}

// changeSet collects changes of a ledger.
type changeSet struct {
	now     time.Time
	changes records.FleetChanges
}

// set changes a row. With kind "" it adds no event.
func (b *changeSet) set(previous row, kind, reason, text string, change func(*records.LedgerRow)) {
	c := records.LedgerChange{LedgerRow: previous.LedgerRow, From: previous.State}
	c.Uses = previous.uses()
	change(&c.LedgerRow)
	if kind != "" {
		c.Message, c.Reason = text, reason
		c.Event = &run.FleetEvent{At: b.now, Kind: kind, By: actorFleet, Reason: reason, Text: text}
	}
	b.changes.Set = append(b.changes.Set, c)
}

// add adds a row.
func (b *changeSet) add(r records.LedgerRow, kind string) {
	b.changes.Add = append(b.changes.Add, records.LedgerChange{
		LedgerRow: r, Event: &run.FleetEvent{At: b.now, Kind: kind, By: actorFleet, Reason: r.Reason, Text: r.Message},
	})
}

func (b *changeSet) empty() bool {
	return len(b.changes.Add)+len(b.changes.Set)+len(b.changes.Events) == 0
}

// listing is the result of a plugin's listing.
type listing map[string]fleeting.State

func listingOf(all []fleeting.Instance) listing {
	out := make(listing, len(all))
	for _, i := range all {
		out[i.ID] = i.State
	}
	return out
}

// has reports whether an instance exists. An instance that is deleted, or that
// the cloud gave up, may be listed for a while.
func (l listing) has(id string) (fleeting.State, bool) {
	state, ok := l[id]
	return state, ok && state != fleeting.StateDeleted && state != fleeting.StateTimeout
}
