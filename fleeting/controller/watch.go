package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Intervals of a watch.
const (
	// minRoundInterval is the minimum time between two reads of the records: in a busy
	// system they change continually.
	minRoundInterval = 50 * time.Millisecond
	// pollInterval is the interval between reads of the records without a change
	// notification. Some changes send none: an executor goes out of contact, or
	// another policy period begins.
	pollInterval = 5 * time.Second
	// statusInterval is the interval at which an unchanged status is written.
	// minStatusInterval is the minimum time between two writes, and
	// minErrorInterval the one before a new error: a client that waits for a
	// machine reads it.
	statusInterval    = 15 * time.Second
	minStatusInterval = time.Second
	minErrorInterval  = 100 * time.Millisecond
	// minUpcomingInterval is the minimum time between two counts of the tasks that are
	// ready soon. maxUpcomingRuns bounds the runs that a count reads.
	minUpcomingInterval = time.Second
	maxUpcomingRuns     = 50
	// pluginRetryDelay is the delay before the next listing after one that
	// failed. It doubles with each further failure, up to maxPluginRetryDelay.
	pluginRetryDelay    = 2 * time.Second
	maxPluginRetryDelay = time.Minute
)

// InProgress lists the operations on a fleet that are in progress when a watch
// begins.
type InProgress struct {
	Bootstrapping []int  // rows whose bootstrap runs
	Change        string // the step that creates or deletes machines; "" for none
}

// WatchResult is the result of a watch.
type WatchResult struct {
	Plan Plan
	Gone bool // the fleet no longer exists
	// After is the change that was in progress, if it had ended when the plan
	// was made. Otherwise the plan creates and deletes no machines.
	After string
}

// Watch observes a fleet until there is something to do, and returns the plan.
// If this process does not own the change in progress, Watch returns an empty
// plan after a short time: another process may know that the change has ended.
func (w *Worker) Watch(ctx context.Context, name string, u InProgress) (WatchResult, error) {
	f := w.fleet(name)
	wake, stop := w.store.WatchFleets()
	defer stop()
	t := &watch{fleet: f, wake: wake, change: u.Change, bootstrapping: map[int]bool{}}
	for _, n := range u.Bootstrapping {
		t.bootstrapping[n] = true
	}
	begin := w.now()
	for {
		p, err := t.round(ctx)
		switch {
		case run.CodeOf(err) == run.CodeNotFound:
			return WatchResult{Gone: true}, nil
		case err != nil:
			return WatchResult{}, err
		case !p.Empty(), !f.ownsChange(u.Change) && w.now().Sub(begin) >= settleTimeout:
			out := WatchResult{Plan: p}
			if !t.changing {
				out.After = u.Change
			}
			return out, nil
		}
		if err := t.wait(ctx); err != nil {
			return WatchResult{}, err
		}
	}
}

// watch is the state of one call of Watch.
type watch struct {
	*fleet
	wake          <-chan struct{}
	change        string // in progress when the watch began
	changing      bool   // the change has not ended
	bootstrapping map[int]bool
	listedAt      time.Time // zero: not by this watch
	listed        bool      // the last listing succeeded
	next          time.Time // when the next round is due
	upcoming      int       // tasks that are ready soon
	upcomingAt    time.Time // when upcoming was counted
}

// round observes the fleet once, and plans.
func (t *watch) round(ctx context.Context) (Plan, error) {
	t.changing = t.change != "" && !t.ended(t.change)
	t.ledgerMu.Lock()
	defer t.ledgerMu.Unlock()
	v, err := t.w.store.ViewFleet(ctx, t.name)
	if err != nil {
		return Plan{}, err
	}
	rules, faults := scaling.Compile(v.Fleet.Spec.Scaling)
	if len(faults) > 0 {
		return Plan{}, run.InvalidError("the scaling settings of fleet "+t.name+" are not valid", faults)
	}
	var pluginErr error
	var found listing
	var group Group
	if !t.w.now().Before(t.nextListing(v)) {
		if group, found, pluginErr = t.list(ctx, v.Fleet); ctx.Err() != nil {
			return Plan{}, context.Cause(ctx)
		}
		t.recordListing(v.Fleet, pluginErr)
	}
	if v, err = t.updateLedger(ctx, found, group); err != nil {
		return Plan{}, err
	}
	if err := t.countUpcoming(ctx, v, rules); err != nil {
		return Plan{}, err
	}
	m := readMemory(v.PolicyState)
	if t.lostRequest.Number > 0 {
		m.recordFailure(t.w.now(), t.lostRequest.RequestedAt, t.lostRequest.Message)
	}
	p := plan(planInput{
		upcoming: t.upcoming, now: t.w.now(), view: v, rules: rules, maxSize: t.maxSize(), memory: m, bootstrapping: t.bootstrapping, trusted: t.listed,
		changing: t.changing,
	})
	t.schedule(v, p)
	return p.Plan, t.writeStatus(ctx, v, p)
}

// countUpcoming counts the tasks that are ready soon, if the policy needs the
// count. The count reads many rows, so it runs at a limited rate.
func (t *watch) countUpcoming(ctx context.Context, v records.FleetView, rules *scaling.Rules) error {
	now := t.w.now()
	if !rules.At(now).Upcoming {
		t.upcoming = 0
		return nil
	}
	if now.Sub(t.upcomingAt) < minUpcomingInterval {
		return nil
	}
	var err error
	t.upcoming, err = t.w.store.UpcomingTasks(ctx, v.Fleet.Spec.Pool, maxUpcomingRuns)
	t.upcomingAt = now
	return err
}

// nextListing returns when the plugin is to be called for the next listing.
func (t *watch) nextListing(v records.FleetView) time.Time {
	if failed := t.failedListings; failed.count > 0 && failed.revision == v.Fleet.Revision {
		return failed.retryAt
	}
	if t.listedAt.IsZero() {
		return time.Time{}
	}
	return t.listedAt.Add(v.Fleet.Spec.Interval(expecting(v)))
}

// failedListings counts the listings that failed in a row. Other settings are
// tried at once.
type failedListings struct {
	count    int
	revision int // of the fleet
	text     string
	retryAt  time.Time
}

func (t *watch) recordListing(f run.Fleet, err error) {
	t.listed = err == nil
	if err == nil {
		t.listedAt, t.failedListings = t.w.now(), failedListings{}
		return
	}
	failed := failedListings{count: 1, revision: f.Revision, text: withoutCredentials(f.Spec, err.Error())}
	if t.failedListings.revision == f.Revision {
		failed.count += t.failedListings.count
	}
	failed.retryAt = t.w.now().Add(min(maxPluginRetryDelay, pluginRetryDelay<<min(failed.count-1, 5)))
	if pause, ok := errors.AsType[*fleeting.PauseError](err); ok { // a listing before that launches nothing
		failed.retryAt = pause.At
	}
	t.failedListings = failed
	t.w.logger.Warn("failed to list the instances of a fleet", "fleet", t.name, "error", err)
}

// expecting reports whether a change is in progress, so that listings use the
// short interval.
func expecting(v records.FleetView) bool {
	return slices.ContainsFunc(v.Instances, func(r records.LedgerRow) bool {
		return r.State != run.InstanceReady && r.State != run.InstanceIgnored || r.Misses > 0 || r.Failures > 0
	})
}

// schedule sets the time of the next round without a change notification.
func (t *watch) schedule(v records.FleetView, p planResult) {
	now := t.w.now()
	t.next = now.Add(pollInterval)
	for _, at := range []time.Time{t.nextListing(v), p.decision.NextAt} {
		if at.After(now) && at.Before(t.next) {
			t.next = at
		}
	}
	if !t.nextListing(v).After(now) {
		t.next = now
	}
}

// wait waits until the next round is due.
func (t *watch) wait(ctx context.Context) error {
	timer := time.NewTimer(max(minRoundInterval, t.next.Sub(t.w.now())))
	defer timer.Stop()
	pause := time.NewTimer(minRoundInterval)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-pause.C:
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case <-t.wake:
	}
	return nil
}

// writeStatus writes the status of the fleet and the memory for the next decision,
// if they changed enough. If a changed status comes too soon after the last one,
// it makes another round due.
func (t *watch) writeStatus(ctx context.Context, v records.FleetView, p planResult) error {
	now := t.w.now()
	next := t.fleetStatus(v, p, now)
	t.w.metrics.setGauges(t.name, p, rowsOf(v), next.Rollout.Outdated)
	if due := t.statusAt.Add(statusPause(v.Fleet.Status, next)); p.Empty() && now.Before(due) {
		if due.Before(t.next) {
			t.next = due
		}
		return nil
	}
	memory := p.memory.text()
	if _, err := t.w.store.ChangeFleet(ctx, t.name, records.FleetChanges{
		Status: &next, PolicyState: &memory, Events: rolloutEvents(v.Fleet.Status.Rollout, next.Rollout, now),
	}); err != nil {
		return err
	}
	t.statusAt = now
	t.lostRequest = records.LedgerRow{} // the memory includes it
	return nil
}

// statusPause returns the minimum time between the writes of two statuses.
func statusPause(previous, next run.FleetStatus) time.Duration {
	if previous.SeenAt.IsZero() != next.SeenAt.IsZero() {
		return 0
	}
	previous.SeenAt, previous.ErrorAt = next.SeenAt, next.ErrorAt
	switch {
	case previous == next:
		return statusInterval
	case next.Error != "" && previous.Error != next.Error:
		return minErrorInterval
	}
	return minStatusInterval
}

func (t *watch) fleetStatus(v records.FleetView, p planResult, now time.Time) run.FleetStatus {
	t.mu.Lock()
	info, refusal := t.info, t.refusal
	t.mu.Unlock()
	figures := p.decision.Figures
	s := run.FleetStatus{
		SeenAt: v.Fleet.Status.SeenAt, Group: info.ID, Plugin: info.Version, MaxSize: int64(info.MaxSize), BlockedBy: string(p.decision.Held),
		Queued: queuedFor(v), Share: figures.Queued, Busy: figures.Busy, Free: figures.Free, Idle: figures.Idle, Target: figures.Target, Limit: figures.Allowed,
		Failures: p.memory.Failures, Instances: figures.Instances,
	}
	if d := v.Fleet.Desired; d != nil {
		s.Target = *d
	}
	if v.Fleet.Mode == run.FleetPaused { // a paused fleet reserves no capacity of a shared quota
		s.Target = min(s.Target, s.Instances)
	}
	if t.listed {
		s.SeenAt = now
		s.Error = cmp.Or(refusal, statusError(v, p)) // the refusal is newer
	} else {
		s.Error = t.failedListings.text
	}
	if s.Error != "" {
		s.ErrorAt = now
	}
	s.Rollout = rolloutStatus(v, p, t.failedListings.text, now)
	if s.Rollout.Phase == run.RolloutProgressing {
		s.Rollout.Message += t.terminatingText(rowsOf(v))
	}
	return s
}

// statusError describes what keeps a fleet from working although its plugin lists,
// or returns "".
func statusError(v records.FleetView, p planResult) string {
	if text := unlistedText(rowsOf(v)); text != "" {
		return text
	}
	switch {
	case p.decision.Held == scaling.ReasonBackoff:
	case p.memory.Failures > 0 && slices.ContainsFunc(v.Instances, func(r records.LedgerRow) bool { return r.State == run.InstanceRequested && !r.Acknowledged }):
		return fmt.Sprintf("it requests instances again after %d failures in a row; the last: %s", p.memory.Failures, p.memory.LastWhy)
	default:
		return ""
	}
	until := p.memory.FailedAt.Add(scaling.PauseAfter(p.memory.Failures)).UTC().Format(time.TimeOnly)
	text := fmt.Sprintf("it requests no more instances before %s UTC, after %d failures in a row; the last: %s", until, p.memory.Failures, p.memory.LastWhy)
	if p.memory.Refusals >= refusalsRestart {
		text += "; the plugin is restarted before the next request"
	}
	return text
}
