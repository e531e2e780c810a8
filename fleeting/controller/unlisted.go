package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const (
	// missesToDrain is how many consecutive listings must lack an instance before
	// its executor takes no new tasks. missesToGone is how many before the
	// instance counts as gone, provided that its executor is out of contact
	// too. Clouds omit instances now and then. GitLab's fleeting provisioner
	// waits for six listings as well.
	missesToDrain = 2
	missesToGone  = 6
	// emptyConfirm is how long listings must lack every instance before the
	// instances count as gone. A wrong filter, credential or region empties a
	// listing more often than a cloud loses all machines at once.
	emptyConfirm = time.Minute
	// maxNamed bounds the instances that a message names.
	maxNamed = 5
)

// unlistedReason is the reason for draining executors of unlisted instances. It
// distinguishes them from the executors that an operator drains.
const unlistedReason = "the plugin of its fleet does not list its instance"

// missed reports whether listings lack the instance, so that it must not take
// new tasks.
func (r row) missed() bool {
	return r.Misses >= missesToDrain && r.Instance != "" && r.State != run.InstanceDeleting && r.State != run.InstanceIgnored
}

// unlisted reports whether listings lack the instance while its executor is in
// contact. The fault is then in the listing.
func (r row) unlisted() bool { return r.missed() && r.inContact() }

// lost reports whether the machine is gone: listings lack it, and its executor
// is out of contact.
func (r row) lost() bool { return r.missed() && r.Misses >= missesToGone && !r.inContact() }

// listedNone reports whether the last listing lacked every instance of the
// ledger, if the ledger has more than one.
func listedNone(rows []row) bool {
	missing := 0
	for _, r := range rows {
		switch {
		case r.Instance == "" || r.State == run.InstanceDeleting:
		case r.Misses == 0:
			return false
		default:
			missing++
		}
	}
	return missing > 1
}

// drainUnlisted drains executors whose instances are unlisted, and ends that drain once
// the instances are listed again. It is idempotent, and two workers may call it
// concurrently.
func (f *fleet) drainUnlisted(ctx context.Context, rows []row) error {
	var errs []error
	for _, r := range rows {
		for _, e := range r.executors {
			switch {
			case r.missed() && e.State == run.ExecutorOnline:
				_, err := f.w.store.DrainExecutor(ctx, e.ID, true, unlistedReason)
				errs = append(errs, ignoreGone(err))
			case e.Reason == unlistedReason && r.Misses == 0 && !r.terminating() && (e.MaxUses == 0 || e.Uses < e.MaxUses):
				_, err := f.w.store.DrainExecutor(ctx, e.ID, false, "")
				errs = append(errs, ignoreGone(err))
			}
		}
	}
	return errors.Join(errs...)
}

// logUnlisted logs instances that have just become unlisted.
func (f *fleet) logUnlisted(ctx context.Context, c records.FleetChanges) {
	var names []string
	for _, change := range c.Set {
		if change.Event != nil && change.Event.Kind == reasonUnlisted {
			names = append(names, change.Instance)
		}
	}
	if len(names) > 0 {
		f.w.logger.WarnContext(ctx, "the plugin does not list instances whose executors are in contact; they get no new tasks",
			"fleet", f.name, "count", len(names), "instances", joinNames(names))
	}
}

// unlistedText describes the fault of the listing, or returns "" if there is
// none.
func unlistedText(rows []row) string {
	var names []string
	for _, r := range rows {
		if r.unlisted() {
			names = append(names, r.Instance)
		}
	}
	switch {
	case len(names) > 0 && listedNone(rows):
		return fmt.Sprintf("the plugin lists none of the instances, and does not list %d whose executors are in contact: %s", len(names), joinNames(names))
	case len(names) > 0:
		return fmt.Sprintf("the plugin does not list %d instances whose executors are in contact: %s", len(names), joinNames(names))
	case listedNone(rows):
		return "the plugin lists none of the instances"
	}
	return ""
}

func joinNames(names []string) string {
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
