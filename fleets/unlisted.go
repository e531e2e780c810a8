package fleets

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
	// missesHeld is how many listings in a row must lack an instance before its
	// executor takes no new tasks, and missesLost how many before the instance
	// counts as gone where its executor is silent, too. Clouds leave instances
	// out now and then. The ecosystem's own provisioner waits for six as well.
	missesHeld = 2
	missesLost = 6
	// emptyConfirm is how long listings must lack every instance before they
	// count as gone: a filter, a credential or a region that is wrong empties a
	// listing more often than a cloud loses all machines at once.
	emptyConfirm = time.Minute
	// maxNamed bounds the instances that a message names.
	maxNamed = 5
)

// heldReason is why executors of unlisted instances drain. It tells them from
// those that an operator drains.
const heldReason = "the plugin of its fleet does not list its instance"

// missed reports whether listings lack the instance: it gets no new tasks.
func (r row) missed() bool {
	return r.Misses >= missesHeld && r.Instance != "" && r.State != run.InstanceDeleting && r.State != run.InstanceIgnored
}

// unlisted reports whether listings lack the instance though its executor is in
// contact: the listing is at fault, and not the instance.
func (r row) unlisted() bool { return r.missed() && r.inContact() }

// lost reports whether the machine is gone: listings lack it, and its executor
// is silent.
func (r row) lost() bool { return r.missed() && r.Misses >= missesLost && !r.inContact() }

// listedNone reports whether the last listing lacked every instance that the
// ledger has, of several.
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

// hold keeps new tasks from executors whose instances are unlisted, and ends
// that once they are listed again. It may be repeated, and two workers that do
// it at once do no harm.
func (f *fleet) hold(ctx context.Context, rows []row) error {
	var errs []error
	for _, r := range rows {
		for _, e := range r.executors {
			switch {
			case r.missed() && e.State == run.ExecutorOnline:
				_, err := f.w.store.DrainExecutor(ctx, e.ID, true, heldReason)
				errs = append(errs, ignoreGone(err))
			case e.Reason == heldReason && r.Misses == 0 && !r.leaving() && (e.MaxUses == 0 || e.Uses < e.MaxUses):
				_, err := f.w.store.DrainExecutor(ctx, e.ID, false, "")
				errs = append(errs, ignoreGone(err))
			}
		}
	}
	return errors.Join(errs...)
}

// warn logs instances that have just become unlisted.
func (f *fleet) warn(ctx context.Context, c records.FleetChanges) {
	var names []string
	for _, change := range c.Set {
		if change.Event != nil && change.Event.Kind == reasonUnlisted {
			names = append(names, change.Instance)
		}
	}
	if len(names) > 0 {
		f.w.logger.WarnContext(ctx, "the plugin does not list instances whose executors are in contact; they get no new tasks",
			"fleet", f.name, "count", len(names), "instances", some(names))
	}
}

// unlistedText says what is wrong with the listing, "" where nothing is.
func unlistedText(rows []row) string {
	var names []string
	for _, r := range rows {
		if r.unlisted() {
			names = append(names, r.Instance)
		}
	}
	switch {
	case len(names) > 0 && listedNone(rows):
		return fmt.Sprintf("the plugin lists none of the instances, and does not list %d whose executors are in contact: %s", len(names), some(names))
	case len(names) > 0:
		return fmt.Sprintf("the plugin does not list %d instances whose executors are in contact: %s", len(names), some(names))
	case listedNone(rows):
		return "the plugin lists none of the instances"
	}
	return ""
}

func some(names []string) string {
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
