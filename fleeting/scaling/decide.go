package scaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Each failure doubles the pause before the next request: a fleet must not
// retry in a loop while its cloud has no capacity or its image is broken.
const (
	initialBackoff = 5 * time.Second
	maxBackoff     = 5 * time.Minute
)

// maxPeaks bounds the memory of a fleet, because a workflow carries it.
const maxPeaks = 16

// Decide returns the actions for a fleet. It never removes an instance that
// holds a task, and never requests more instances than the limits allow. If the
// actions are carried out and nothing else changes, Decide soon returns no more
// actions.
func Decide(in Input) Decision {
	d := &decider{in: in}
	d.sort()
	d.retire()
	d.computeFigures()
	d.grow()
	d.shrinkToLimit()
	d.recordPeak()
	d.shrink()
	return Decision{Actions: d.actions, Figures: d.figures, Held: d.held, Room: d.room, Memory: d.memory, NextAt: d.nextAt}
}

type decider struct {
	in      Input
	serving []Instance // in the order of removal; they offer slots, now or later
	actions []Action
	figures Figures
	held    Reason
	room    *int
	memory  Memory
	nextAt  time.Time
}

// wake makes the next decision due at t or earlier.
func (d *decider) wake(t time.Time) {
	if t.After(d.in.Now) && (d.nextAt.IsZero() || t.Before(d.nextAt)) {
		d.nextAt = t
	}
}

func (d *decider) act(kind Kind, id string, reason Reason, format string, args ...any) {
	d.actions = append(d.actions, Action{Kind: kind, ID: id, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// sort orders the instances by removal: first those that are nearest to their
// end, then those that have been idle for longest.
func (d *decider) sort() {
	d.in.Instances = slices.Clone(d.in.Instances)
	slices.SortFunc(d.in.Instances, func(a, b Instance) int {
		return cmp.Or(compareOutdated(a, b), cmp.Compare(d.free(a), d.free(b)), a.IdleSince.Compare(b.IdleSince), strings.Compare(a.ID, b.ID))
	})
}

// free returns how many more tasks an instance can take.
func (d *decider) free(i Instance) int {
	free := d.in.Limits.Capacity - i.Busy
	if maximum := d.in.Limits.MaxUse; maximum > 0 {
		free = min(free, maximum-i.Used)
	}
	return max(0, free)
}

func (d *decider) exhausted(i Instance) bool {
	return d.in.Limits.MaxUse > 0 && i.Used >= d.in.Limits.MaxUse
}

// retire removes instances that cannot serve any longer, and collects the
// others in serving.
func (d *decider) retire() {
	for _, i := range d.in.Instances {
		deadline := i.RequestedAt.Add(d.in.Limits.RequestTimeout)
		switch {
		case i.State.terminating():
		case i.State.pending() && i.Busy == 0 && !d.in.Now.Before(deadline):
			d.act(GiveUp, i.ID, ReasonTimeout, "still %s after %s", i.State, d.in.Limits.RequestTimeout)
		case i.Unhealthy && i.Busy > 0:
			d.act(Drain, i.ID, ReasonUnhealthy, "unhealthy; it takes no more tasks, and is deleted when its tasks have ended")
		case i.Unhealthy:
			d.act(Remove, i.ID, ReasonUnhealthy, "unhealthy")
		case d.exhausted(i) && i.Busy == 0:
			d.act(Remove, i.ID, ReasonExhausted, "has taken %d tasks", i.Used)
		case d.exhausted(i): // an exhausted instance takes no new tasks
		default:
			if i.State.pending() {
				d.wake(deadline)
			}
			d.serving = append(d.serving, i)
		}
	}
}

// computeFigures computes the figures: what exists, and what is needed.
func (d *decider) computeFigures() {
	f := &d.figures
	f.Queued, f.Instances = max(0, d.in.Demand.Queued), len(d.in.Instances)
	for _, i := range d.in.Instances {
		f.Busy += i.Busy
		if i.State.terminating() {
			f.Terminating++
		}
	}
	f.Terminating += len(d.actions) // the instances that retire removed
	for _, i := range d.serving {
		f.Free += d.free(i)
		if i.State.pending() {
			f.Pending++
		}
	}
	waiting := d.waiting()
	f.Idle = idle(d.in.Terms, f.Busy+waiting)
	f.RequiredSlots = waiting + f.Idle
	f.Required = ceil(f.RequiredSlots-f.Free, d.perInstance())
	f.Required += d.surge(f.Required)
	f.Target = max(0, f.Instances-f.Terminating+f.Required)
	f.Needed = max(f.Target, ceil(f.Busy+f.RequiredSlots, d.perInstance()))
	f.Allowed = d.in.Limits.MaxInstances
	if q := d.in.Quota; q != nil && (f.Allowed == 0 || *q < f.Allowed) {
		f.Allowed = *q
	}
}

// surge returns how many instances to request for a rollout, besides the
// missing ones.
func (d *decider) surge(missing int) int {
	if d.in.Room == nil {
		return d.in.Surge
	}
	return max(0, min(d.in.Surge, *d.in.Room-max(0, missing)))
}

// withinRoom limits a request to the room that a rollout leaves, except for
// tasks without a slot.
func (d *decider) withinRoom(n int) int {
	if d.in.Room == nil {
		return n
	}
	room := max(*d.in.Room, d.forTasks())
	d.room = &room
	return min(n, room)
}

// forTasks returns how many instances the tasks without a slot need.
func (d *decider) forTasks() int {
	return max(0, ceil(d.tasks()-d.figures.Free, d.perInstance()))
}

// tasks returns the number of tasks that wait, or are about to.
func (d *decider) tasks() int {
	n := max(0, d.in.Demand.Queued)
	if d.in.Terms.Upcoming {
		n += max(0, d.in.Demand.Upcoming)
	}
	return n
}

// waiting returns the number of tasks that need free slots. In preemptive mode tasks
// take the slots that are idle, and only the slots that are used then are replaced.
func (d *decider) waiting() int {
	if d.in.Terms.Preemptive {
		return 0
	}
	return d.tasks()
}

// readySlots returns the free slots of instances that are ready.
func (d *decider) readySlots() (n int) {
	for _, i := range d.serving {
		if i.State == StateReady {
			n += d.free(i)
		}
	}
	return n
}

// idle returns how many slots must be free besides those for waiting tasks. A
// waiting task counts like a running one, so that the number does not change
// when the task starts.
func idle(t Terms, tasks int) int {
	n := ceil(t.FactorMilli*tasks, 1000)
	if t.FactorLimit > 0 {
		n = min(n, t.FactorLimit)
	}
	return max(n, t.IdleCount)
}

// ceil divides, and rounds up a shortage and down a surplus, so that slots
// always suffice.
func ceil(n, by int) int {
	if n > 0 {
		return (n + by - 1) / by
	}
	return n / by
}

// perInstance returns the number of concurrent tasks on a new instance.
func (d *decider) perInstance() int {
	if maximum := d.in.Limits.MaxUse; maximum > 0 {
		return min(maximum, d.in.Limits.Capacity)
	}
	return d.in.Limits.Capacity
}

// grow requests missing instances, within the limits.
func (d *decider) grow() {
	n := d.withinRoom(d.figures.Required)
	if d.in.Terms.Preemptive && d.in.Demand.Queued > d.readySlots() {
		d.held = ReasonPreemptive
	}
	if n <= 0 {
		d.memory.Throttle = d.in.Memory.Throttle
		return
	}
	if d.limited() {
		if room := max(0, d.figures.Allowed-d.figures.Instances); room < n {
			n, d.held = room, ReasonMaxInstances
			if own := d.in.Limits.MaxInstances; own == 0 || d.figures.Allowed < own {
				d.held = ReasonQuota
			}
		}
	}
	if until := d.backoff(); n > 0 && d.in.Now.Before(until) {
		n, d.held = 0, ReasonBackoff
		d.wake(until)
	}
	if n = d.throttle(n); n == 0 {
		return
	}
	reason, why := ReasonDemand, fmt.Sprintf("%d tasks wait and %d idle slots are required; %d slots are free", d.waiting(), d.figures.Idle, d.figures.Free)
	if d.waiting() == 0 {
		reason, why = ReasonIdleCount, fmt.Sprintf("%d idle slots are required; %d slots are free", d.figures.Idle, d.figures.Free)
	}
	if d.figures.Required <= d.in.Surge && d.waiting() <= d.figures.Free {
		reason, why = ReasonRollout, "they replace instances of earlier revisions"
	}
	d.actions = append(d.actions, Action{Kind: Request, Count: n, Reason: reason, Message: why})
}

// limited reports whether the number of instances is limited. A quota of 0 is a
// limit too.
func (d *decider) limited() bool { return d.figures.Allowed > 0 || d.in.Quota != nil }

// backoff returns the end of the pause after failures.
func (d *decider) backoff() time.Time {
	if d.in.Failures < 1 {
		return time.Time{}
	}
	return d.in.FailedAt.Add(PauseAfter(d.in.Failures))
}

// PauseAfter returns the pause before the next request after a number of
// consecutive failures. It is the same for the same number: decisions are
// repeatable.
func PauseAfter(failures int) time.Duration {
	if failures < 1 {
		return 0
	}
	return min(maxBackoff, initialBackoff<<min(failures-1, 6)) // the seventh exceeds maxBackoff
}

// throttle takes tokens for up to n instances. The state of the bucket is the
// time at which it is full again.
func (d *decider) throttle(n int) int {
	every, burst := d.in.Limits.ThrottleEvery, d.in.Limits.ThrottleBurst
	full := d.in.Memory.Throttle
	d.memory.Throttle = full
	if burst == 0 || every == 0 || n == 0 {
		return n
	}
	if full.Before(d.in.Now) {
		full = d.in.Now
	}
	size := every * time.Duration(burst)
	if got := max(0, int((size-full.Sub(d.in.Now))/every)); got < n {
		n, d.held = got, ReasonThrottle
		// The next token exists when the bucket lacks all tokens but one.
		d.wake(full.Add(every*time.Duration(got+1) - size))
	}
	d.memory.Throttle = full.Add(every * time.Duration(n))
	return n
}

// shrinkToLimit removes instances without tasks that exceed a lowered limit,
// first those that are not ready.
func (d *decider) shrinkToLimit() {
	excess := d.figures.Instances - d.figures.Terminating - d.figures.Allowed
	if !d.limited() || excess <= 0 {
		return
	}
	for _, ready := range []bool{false, true} {
		d.serving = slices.DeleteFunc(d.serving, func(i Instance) bool {
			if excess == 0 || i.Busy > 0 || i.State.pending() == ready {
				return false
			}
			excess--
			d.drop(i, ReasonOverLimit, "only %d instances are allowed", d.figures.Allowed)
			return true
		})
	}
}

// drop removes a serving instance.
func (d *decider) drop(i Instance, reason Reason, format string, args ...any) {
	d.act(Remove, i.ID, reason, format, args...)
	d.figures.Free -= d.free(i)
	d.figures.Terminating++
}

// recordPeak records how many slots are needed now. Of the earlier numbers, only
// larger ones matter.
func (d *decider) recordPeak() {
	now := Peak{At: d.in.Now, Slots: d.figures.RequiredSlots}
	for _, i := range d.serving {
		now.Slots += i.Busy
	}
	for i, p := range d.in.Memory.Peaks {
		if i == len(d.in.Memory.Peaks)-1 { // that number was needed until now
			p.At = d.in.Now
		}
		if p.Slots > now.Slots && d.in.Now.Before(p.At.Add(d.in.Limits.HoldDown)) {
			d.memory.Peaks = append(d.memory.Peaks, p)
		}
	}
	d.memory.Peaks = append(d.memory.Peaks, now)
	if n := len(d.memory.Peaks); n > maxPeaks {
		// Merge two peaks into one with the higher number and the later time:
		// to keep instances for too long is the safe error.
		d.memory.Peaks[n-3].At = d.memory.Peaks[n-2].At
		d.memory.Peaks = slices.Delete(d.memory.Peaks, n-2, n-1)
	}
}

// shrink removes instances that have been idle for long enough, if the
// remaining slots suffice and would have sufficed during the hold-down. Only
// free slots of ready instances count: a starting instance may never be ready.
func (d *decider) shrink() {
	keep := d.figures.RequiredSlots + d.in.Surge*d.perInstance()
	free := d.readySlots()
	slots := free
	for _, i := range d.serving {
		slots += i.Busy
	}
	for _, i := range d.serving {
		if i.State != StateReady || i.Busy > 0 || free-d.free(i) < keep {
			continue
		}
		due := i.IdleSince.Add(d.in.Terms.IdleTime)
		if until := d.heldUntil(slots - d.free(i)); until.After(due) {
			due = until
		}
		if d.in.Now.Before(due) {
			d.wake(due)
			continue
		}
		d.drop(i, ReasonIdle, "idle for %s and not needed", d.in.Now.Sub(i.IdleSince).Round(time.Second))
		free -= d.free(i)
		slots -= d.free(i)
	}
}

// heldUntil returns the time at which the given number of slots will have
// sufficed for the hold-down. The peaks are in descending order.
func (d *decider) heldUntil(slots int) time.Time {
	for _, p := range slices.Backward(d.memory.Peaks) {
		if p.Slots > slots {
			return p.At.Add(d.in.Limits.HoldDown)
		}
	}
	return time.Time{}
}
