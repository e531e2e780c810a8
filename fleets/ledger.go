package fleets

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

// Times that are no settings.
const (
	// offlinePatience is how long an executor may be out of contact before its
	// instance counts as ill: longer than a restart of its agent.
	offlinePatience = time.Minute
	// settleTime is how long a machine may take to be listed after a request of
	// which nobody knows whether the plugin heard it.
	settleTime = 10 * time.Second
	// quotaPatience is how long room is kept in a quota for a fleet whose plugin
	// lists nothing, or whose worker is away: longer than a restart of either.
	quotaPatience = 5 * time.Minute
)

// byItself is who does what nobody asked for by hand.
const byItself = "fleet"

// row is a row of the ledger with the executors that say they are on it.
type row struct {
	records.LedgerRow
	executors []run.Executor
}

// rowsOf puts together what a view tells of each instance.
func rowsOf(v records.FleetView) []row {
	out := make([]row, len(v.Instances))
	for i, r := range v.Instances {
		out[i].LedgerRow = r
		for _, e := range v.Executors {
			if r.Instance != "" && e.Instance == r.Instance {
				out[i].executors = append(out[i].executors, e)
			}
		}
		// The one that came last first: an agent that lost its state is another.
		slices.SortFunc(out[i].executors, func(a, b run.Executor) int {
			return cmp.Or(b.RegisteredAt.Compare(a.RegisteredAt), cmp.Compare(a.ID, b.ID))
		})
	}
	return out
}

func (r row) leaving() bool {
	return r.State == run.InstanceDraining || r.State == run.InstanceDeleting
}

// busy returns the tasks that the instance holds, and uses those that it took.
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

// inContact reports whether any of its executors is.
func (r row) inContact() bool {
	return slices.ContainsFunc(r.executors, func(e run.Executor) bool { return e.State != run.ExecutorOffline })
}

// heard returns when something was last heard of it.
func (r row) heard() (last time.Time) {
	for _, e := range r.executors {
		if e.LastContact.After(last) {
			last = e.LastContact
		}
	}
	return last
}

// drained reports whether nothing of it can hold a task, or get one.
func (r row) drained() bool {
	for _, e := range r.executors {
		switch {
		case e.Tasks > 0:
			return false
		case e.State == run.ExecutorDraining && e.Drained:
		case e.State == run.ExecutorOffline && r.State == run.InstanceDraining:
			// Whatever it is handed from now on it is refused.
		default:
			return false
		}
	}
	return true
}

// unhealthy reports why it must not be used, "" where it may.
func (r row) unhealthy(now time.Time, threshold int) string {
	switch {
	case r.Failures >= threshold:
		return strconv.Itoa(r.Failures) + " health checks in a row have failed"
	case r.State == run.InstanceReady && len(r.executors) == 0:
		return "its executor was removed"
	case r.State == run.InstanceReady && !r.inContact() && now.Sub(r.heard()) > offlinePatience:
		return "nothing was heard of its executor since " + r.heard().UTC().Format(time.RFC3339)
	}
	return ""
}

// scaling returns the instance as the policy knows it.
func (r row) scaling(now time.Time, threshold int) scaling.Instance {
	idle := r.ReadyAt
	if r.LastUsed.After(idle) {
		idle = r.LastUsed
	}
	state := scaling.State(r.State)
	if r.missed() { // it takes no tasks, like one that drains
		state = scaling.StateDraining
	}
	return scaling.Instance{
		ID: strconv.Itoa(r.Number), State: state, AskedAt: r.AskedAt, IdleSince: idle,
		Busy: r.busy(), Used: r.uses(), Unhealthy: r.unhealthy(now, threshold) != "",
	}
}

// book collects changes of a ledger.
type book struct {
	now     time.Time
	changes records.FleetChanges
}

// set changes a row. kind "" tells nobody.
func (b *book) set(was row, kind, reason, text string, change func(*records.LedgerRow)) {
	c := records.LedgerChange{LedgerRow: was.LedgerRow, From: was.State}
	c.Uses = was.uses()
	change(&c.LedgerRow)
	if kind != "" {
		c.Why, c.Reason = text, reason
		c.Event = &run.FleetEvent{At: b.now, Kind: kind, By: byItself, Reason: reason, Text: text}
	}
	b.changes.Set = append(b.changes.Set, c)
}

// add makes a row.
func (b *book) add(r records.LedgerRow, kind string) {
	b.changes.Add = append(b.changes.Add, records.LedgerChange{
		LedgerRow: r, Event: &run.FleetEvent{At: b.now, Kind: kind, By: byItself, Reason: r.Reason, Text: r.Why},
	})
}

func (b *book) empty() bool { return len(b.changes.Add)+len(b.changes.Set)+len(b.changes.Events) == 0 }

// listing is what a plugin listed.
type listing map[string]fleeting.State

func listingOf(all []fleeting.Instance) listing {
	out := make(listing, len(all))
	for _, i := range all {
		out[i.ID] = i.State
	}
	return out
}

// has reports whether an instance is there: one that is deleted, or was given
// up by the cloud, may be listed for a while.
func (l listing) has(id string) (fleeting.State, bool) {
	state, ok := l[id]
	return state, ok && state != fleeting.StateDeleted && state != fleeting.StateTimeout
}
