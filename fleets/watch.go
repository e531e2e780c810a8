package fleets

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Intervals of a watch.
const (
	// breath is the minimum time between two reads of the records: in a busy
	// system they change continually.
	breath = 50 * time.Millisecond
	// pollEvery is the interval between reads of the records without a change
	// notification. Some changes send none: an executor goes out of contact, or
	// another policy period begins.
	pollEvery = 5 * time.Second
	// statusEvery is the interval at which an unchanged status is written.
	// minStatusInterval is the minimum time between two writes.
	statusEvery = 15 * time.Second
	statusLeast = time.Second
	// aheadLeast is the minimum time between two counts of the tasks that are
	// ready soon. maxUpcomingRuns bounds the runs that a count reads.
	aheadLeast = time.Second
	aheadRuns  = 50
	// pluginRetry is the delay before a plugin that failed is called again.
	pluginRetry = 2 * time.Second
)

// UnderWay lists the operations on a fleet that are in progress when a watch
// begins.
type UnderWay struct {
	Bootstrapping []int  // rows whose bootstrap runs
	Change        string // the step that creates or deletes machines; "" for none
}

// Watched is the result of a watch.
type Watched struct {
	Plan Plan
	Gone bool // the fleet no longer exists
	// After is the change that was in progress, if it had ended when the plan
	// was made. Otherwise the plan creates and deletes no machines.
	After string
}

// Watch observes a fleet until there is something to do, and returns the plan.
// If this process does not own the change in progress, Watch returns an empty
// plan after a short time: another process may know that the change has ended.
func (w *Worker) Watch(ctx context.Context, name string, u UnderWay) (Watched, error) {
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
			return Watched{Gone: true}, nil
		case err != nil:
			return Watched{}, err
		case !p.Empty(), !f.knows(u.Change) && w.now().Sub(begin) >= settleTime:
			out := Watched{Plan: p}
			if !t.changing {
				out.After = u.Change
			}
			return out, nil
		}
		if err := t.wait(ctx); err != nil {
			return Watched{}, err
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
	failedAt      time.Time // when the plugin failed
	listed        bool      // the last listing succeeded
	next          time.Time // when the next round is due
	upcoming      int       // tasks that are ready soon
	upcomingAt    time.Time // when upcoming was counted
	status        run.FleetStatus
	statusAt      time.Time // when the status was written
}

// round observes the fleet once, and plans.
func (t *watch) round(ctx context.Context) (Plan, error) {
	t.changing = t.change != "" && !t.ended(t.change)
	t.looking.Lock()
	defer t.looking.Unlock()
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
	if !t.w.now().Before(t.listDue(v)) {
		if group, found, pluginErr = t.list(ctx, v.Fleet); ctx.Err() != nil {
			return Plan{}, context.Cause(ctx)
		}
		t.noteListing(pluginErr)
	}
	if v, err = t.look(ctx, found, group); err != nil {
		return Plan{}, err
	}
	if err := t.lookAhead(ctx, v, rules); err != nil {
		return Plan{}, err
	}
	m := readMemory(v.Memory)
	if t.lost.Number > 0 {
		m.failed(t.w.now(), t.lost.AskedAt, t.lost.Why)
	}
	p := plan(situation{
		upcoming: t.upcoming, now: t.w.now(), view: v, rules: rules, most: t.most(), memory: m, bootstrapping: t.bootstrapping, trusted: t.listed,
		changing: t.changing,
	})
	t.schedule(v, p)
	return p.Plan, t.report(ctx, v, p, pluginErr)
}

// lookAhead counts the tasks that are ready soon, if the policy needs the
// count. The count reads many rows, so it runs at a limited rate.
func (t *watch) lookAhead(ctx context.Context, v records.FleetView, rules *scaling.Rules) error {
	now := t.w.now()
	if !rules.At(now).Preemptive {
		t.upcoming = 0
		return nil
	}
	if now.Sub(t.upcomingAt) < aheadLeast {
		return nil
	}
	var err error
	t.upcoming, err = t.w.store.UpcomingTasks(ctx, v.Fleet.Spec.Pool, aheadRuns)
	t.upcomingAt = now
	return err
}

// listDue returns when the plugin is to be called for the next listing.
func (t *watch) listDue(v records.FleetView) time.Time {
	if t.listedAt.IsZero() && t.failedAt.IsZero() {
		return time.Time{}
	}
	if !t.listed {
		return t.failedAt.Add(pluginRetry)
	}
	return t.listedAt.Add(v.Fleet.Spec.Interval(expecting(v)))
}

func (t *watch) noteListing(err error) {
	t.listed = err == nil
	if err == nil {
		t.listedAt, t.failedAt = t.w.now(), time.Time{}
		return
	}
	t.failedAt = t.w.now()
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
func (t *watch) schedule(v records.FleetView, p planned) {
	now := t.w.now()
	t.next = now.Add(pollEvery)
	for _, at := range []time.Time{t.listDue(v), p.decision.Again} {
		if at.After(now) && at.Before(t.next) {
			t.next = at
		}
	}
	if !t.listDue(v).After(now) {
		t.next = now
	}
}

// wait waits until the next round is due.
func (t *watch) wait(ctx context.Context) error {
	timer := time.NewTimer(max(breath, t.next.Sub(t.w.now())))
	defer timer.Stop()
	pause := time.NewTimer(breath)
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

// report writes the status of the fleet and the memory for the next decision,
// if they changed enough.
func (t *watch) report(ctx context.Context, v records.FleetView, p planned, pluginErr error) error {
	now := t.w.now()
	next := t.standing(v, p, pluginErr, now)
	same := next
	same.SeenAt, same.ErrorAt = t.status.SeenAt, t.status.ErrorAt
	t.w.metrics.stands(t.name, p, rowsOf(v))
	since := now.Sub(t.statusAt)
	if p.Empty() && since < statusEvery && (same == t.status || since < statusLeast) {
		return nil
	}
	memory := p.memory.text()
	if _, err := t.w.store.ChangeFleet(ctx, t.name, records.FleetChanges{Status: &next, Memory: &memory}); err != nil {
		return err
	}
	t.status, t.statusAt = next, now
	t.lost = records.LedgerRow{} // the memory includes it
	return nil
}

func (t *watch) standing(v records.FleetView, p planned, pluginErr error, now time.Time) run.FleetStatus {
	t.mu.Lock()
	info := t.info
	t.mu.Unlock()
	figures := p.decision.Figures
	s := run.FleetStatus{
		SeenAt: v.Fleet.Status.SeenAt, Group: info.ID, Plugin: info.Version, MaxSize: int64(info.MaxSize), Held: string(p.decision.Held),
		Queued: v.Queued, Share: figures.Queued, Busy: figures.Busy, Free: figures.Free, Idle: figures.Idle, Target: figures.Target, Most: figures.Most,
		Failures: p.memory.Failures, Instances: figures.Instances,
	}
	if d := v.Fleet.Desired; d != nil {
		s.Target = *d
	}
	if v.Fleet.Mode == run.FleetPaused { // a paused fleet reserves no capacity of a shared quota
		s.Target = min(s.Target, s.Instances)
	}
	switch {
	case pluginErr != nil:
		s.Error, s.ErrorAt = pluginErr.Error(), now
	case !t.listed:
		s.Error, s.ErrorAt = t.status.Error, t.status.ErrorAt
	default:
		s.SeenAt = now
		if s.Error = trouble(v, p); s.Error != "" {
			s.ErrorAt = now
		}
	}
	return s
}

// trouble describes what keeps a fleet from working although its plugin lists,
// or returns "".
func trouble(v records.FleetView, p planned) string {
	if text := unlistedText(rowsOf(v)); text != "" {
		return text
	}
	if p.decision.Held != scaling.ReasonBackoff {
		return ""
	}
	until := p.memory.FailedAt.Add(pauseAfter(p.memory.Failures)).UTC().Format(time.TimeOnly)
	text := fmt.Sprintf("it requests no more instances before %s UTC, after %d failures in a row; the last: %s", until, p.memory.Failures, p.memory.LastWhy)
	if p.memory.Refusals >= refusalsRestart {
		text += "; the plugin is restarted before the next request"
	}
	return text
}
