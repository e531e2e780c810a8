package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const (
	// maxRolloutFailures is the number of consecutive failures to create
	// instances of a revision after which its rollout stops. One failure may
	// have a passing cause.
	maxRolloutFailures = 3
	// pluginTimeout is how long a plugin may fail with new settings before the
	// rollout counts as failed. It is longer than a restart of the plugin.
	pluginTimeout = time.Minute
)

// rolloutStopped reports whether no more instances are replaced for now.
func rolloutStopped(f run.Fleet, failures int) bool {
	return f.RolloutPaused || failures >= maxRolloutFailures
}

// outdatedBy returns how many revisions the instance is behind.
func (r row) outdatedBy(f run.Fleet) int { return f.Revision - r.Revision }

// replace decides which instances of earlier revisions to replace next. d is the
// decision without the rollout.
func replace(f run.Fleet, in scaling.Input, d scaling.Decision) scaling.Replacement {
	q := scaling.Replacing{Instances: slices.Clone(in.Instances), Required: d.Figures.Target, Needed: d.Figures.Needed, Allowed: scaling.Unlimited, Update: f.Spec.Update}
	switch {
	case f.Desired != nil:
		q.Required, q.Needed = *f.Desired, *f.Desired
	case in.Terms.IdleTime == 0 && d.Figures.RequiredSlots == 0: // instances are removed when their tasks end: none needs a successor
		q.Required = 0
	}
	if d.Figures.Allowed > 0 || in.Quota != nil {
		q.Allowed = d.Figures.Allowed
	}
	for _, a := range d.Actions { // the policy removes these for their own state
		if a.Kind == scaling.Request || a.Reason == scaling.ReasonIdle || a.Reason == scaling.ReasonOverLimit {
			continue
		}
		if i := slices.IndexFunc(q.Instances, func(i scaling.Instance) bool { return i.ID == a.ID }); i >= 0 {
			q.Instances[i].State = scaling.StateDraining
		}
	}
	return scaling.Replace(q)
}

// withReplacement returns the input of a decision after the next part of a
// rollout.
func withReplacement(in scaling.Input, r scaling.Replacement) scaling.Input {
	in.Instances = slices.Clone(in.Instances)
	for k := range in.Instances {
		if slices.Contains(r.Drain, in.Instances[k].ID) {
			in.Instances[k].State = scaling.StateDraining
		}
	}
	in.Surge, in.Room = r.Surge, r.Room
	return in
}

// rollOut drains the instances that are replaced next. gone has the rows that
// are removed.
func (p *planner) rollOut(rows map[string]row, gone map[int]bool) {
	for _, id := range p.out.replacement.Drain {
		r := rows[id]
		if gone[r.Number] || r.Misses > 0 || r.Reason == reasonBootstrap || p.lost(r) || p.requestInFlight(r) {
			continue
		}
		gone[r.Number] = true
		p.order(&p.out.Drain, r, string(scaling.ReasonRollout), fmt.Sprintf("revision %d of the fleet replaces revision %d", p.s.view.Fleet.Revision, r.Revision))
	}
}

// countRollout counts the instances of the current revision and of earlier ones.
func countRollout(f run.Fleet, rows []row) (s run.RolloutStatus) {
	for _, r := range rows {
		switch {
		case r.State == run.InstanceIgnored:
		case r.Revision != f.Revision:
			s.Outdated++
		case r.terminating():
		default:
			s.Updated++
			if r.State == run.InstanceReady {
				s.Ready++
			}
		}
	}
	return s
}

// unlistedOutdated counts the instances of earlier revisions that the plugin does
// not list although their executors are in contact.
func unlistedOutdated(f run.Fleet, rows []row) (n int) {
	for _, r := range rows {
		if r.unlisted() && r.Revision != f.Revision {
			n++
		}
	}
	return n
}

// completeRollout records that a rollout is complete: every instance has the
// current revision, and one of them is ready, or none is needed. From then on,
// failures of the fleet are not failures of the rollout.
func (p *planner) completeRollout() {
	f, required := p.s.view.Fleet, p.out.decision.Figures.Target
	if f.Desired != nil {
		required = *f.Desired
	}
	s := countRollout(f, p.rows)
	unneeded := s.Updated == 0 && required == 0 && p.out.memory.Failures == 0
	if p.s.trusted && s.Outdated == 0 && (s.Ready > 0 || unneeded) {
		p.out.memory.Completed = f.Revision
	}
}

// rolloutStatus describes the rollout of the current revision.
func rolloutStatus(v records.FleetView, p planResult, pluginErr string, now time.Time) run.RolloutStatus {
	f := v.Fleet
	s := countRollout(f, rowsOf(v))
	s.Revision, s.Required, s.Phase = f.Revision, p.replacement.Size, run.RolloutProgressing
	since := f.RolloutSince
	if f.Status.SeenAt.After(since) {
		since = f.Status.SeenAt
	}
	switch {
	case s.Outdated == 0 && p.memory.Completed == f.Revision:
		s.Phase = run.RolloutComplete
	case f.RolloutPaused:
		s.Phase, s.Message = run.RolloutPaused, "an operator paused the rollout"
	case p.memory.Failures >= maxRolloutFailures:
		s.Phase = run.RolloutFailed
		s.Message = fmt.Sprintf("%d requests for instances of revision %d failed in a row; the last: %s", p.memory.Failures, f.Revision, p.memory.LastWhy)
	case unlistedOutdated(f, rowsOf(v)) > 0:
		s.Phase = run.RolloutFailed
		s.Message = fmt.Sprintf("with these settings the plugin does not list %d instances of earlier revisions: undo the rollout, and drain the fleet "+
			"before you change its group", unlistedOutdated(f, rowsOf(v)))
	case pluginErr != "" && now.Sub(since) > pluginTimeout:
		s.Phase, s.Message = run.RolloutFailed, "the plugin does not work with these settings: "+pluginErr
	case pluginErr != "":
		s.Message = "the plugin does not list its instances: " + pluginErr
	case f.Mode != run.FleetActive:
		s.Message = "the fleet is " + string(f.Mode)
	case p.memory.Failures > 0:
		s.Message = "an instance failed: " + p.memory.LastWhy
	case s.Outdated > 0:
		s.Message = fmt.Sprintf("instances of earlier revisions: %d", s.Outdated)
	default:
		s.Message = "no instance of this revision is ready yet"
	}
	return s
}

// terminatingText names the instances that are being deleted and those that drain with
// tasks, because a rollout may wait for their end. It adds the plugin's error if it
// refused a deletion.
func (f *fleet) terminatingText(rows []row) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var deleting, draining []string
	refusal := ""
	for _, r := range rows {
		switch {
		case r.State == run.InstanceDeleting:
			deleting = append(deleting, r.Instance)
			if text := f.undeleted[r.Instance]; text != "" {
				refusal = "; the plugin refused: " + text
			}
		case r.State == run.InstanceDraining && r.busy() > 0:
			draining = append(draining, r.Instance)
		}
	}
	text := ""
	if len(draining) > 0 {
		text = "; waiting for the tasks on " + joinNames(draining)
	}
	if len(deleting) > 0 {
		text += "; waiting for the deletion of " + joinNames(deleting) + refusal
	}
	return text
}

// rolloutEvents returns the event of a change of the phase. The first revision of
// a fleet replaces nothing.
func rolloutEvents(previous, next run.RolloutStatus, now time.Time) []run.FleetEvent {
	if next.Revision <= 1 || previous.Revision == 0 || previous.Revision == next.Revision && previous.Phase == next.Phase {
		return nil
	}
	e := run.FleetEvent{At: now, By: actorFleet, Reason: string(scaling.ReasonRollout)}
	switch next.Phase {
	case run.RolloutComplete:
		e.Kind, e.Text = "rollout_complete", fmt.Sprintf("all instances have revision %d", next.Revision)
	case run.RolloutFailed:
		e.Kind, e.Text = "rollout_failed", next.Message
	case run.RolloutProgressing, run.RolloutPaused:
		return nil
	}
	return []run.FleetEvent{e}
}
