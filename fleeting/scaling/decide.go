package scaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Failures are followed by a pause, each by one twice as long: a cloud without
// capacity, or a broken image, should not be asked in a loop.
const (
	backoffFirst = 5 * time.Second
	backoffMost  = 5 * time.Minute
)

// maxPeaks bounds the memory of a fleet: a workflow carries it.
const maxPeaks = 16

// Decide says what to do. An instance that holds a task is never removed, and
// never are more asked for than the limits allow. Where its actions are
// carried out and nothing else changes, it soon has none any more.
func Decide(in Input) Decision {
	d := &decider{in: in}
	d.sort()
	d.retire()
	d.reckon()
	d.grow()
	d.shrinkToLimit()
	d.remember()
	d.shrink()
	return Decision{Actions: d.actions, Figures: d.figures, Held: d.held, Memory: d.memory, Again: d.again}
}

type decider struct {
	in      Input
	serving []Instance // sorted as they would be removed; they offer slots, now or later
	actions []Action
	figures Figures
	held    Reason
	memory  Memory
	again   time.Time
	slots   int // of the serving instances
}

// wake has the next decision made at t at the latest.
func (d *decider) wake(t time.Time) {
	if t.After(d.in.Now) && (d.again.IsZero() || t.Before(d.again)) {
		d.again = t
	}
}

func (d *decider) act(kind Kind, id string, reason Reason, format string, args ...any) {
	d.actions = append(d.actions, Action{Kind: kind, ID: id, Reason: reason, Why: fmt.Sprintf(format, args...)})
}

// sort puts first what would be removed first: what is nearest to its end
// anyhow, then what has been idle for longest.
func (d *decider) sort() {
	d.in.Instances = slices.Clone(d.in.Instances)
	slices.SortFunc(d.in.Instances, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(d.free(a), d.free(b)), a.IdleSince.Compare(b.IdleSince), strings.Compare(a.ID, b.ID))
	})
}

// free returns the tasks that an instance can take beside those it holds.
func (d *decider) free(i Instance) int {
	free := d.in.Limits.Capacity - i.Busy
	if most := d.in.Limits.MaxUse; most > 0 {
		free = min(free, most-i.Used)
	}
	return max(0, free)
}

func (d *decider) exhausted(i Instance) bool {
	return d.in.Limits.MaxUse > 0 && i.Used >= d.in.Limits.MaxUse
}

// retire ends what is of no use any more and collects the others.
func (d *decider) retire() {
	for _, i := range d.in.Instances {
		deadline := i.AskedAt.Add(d.in.Limits.RequestTimeout)
		switch {
		case i.State.leaving():
		case i.State.pending() && i.Busy == 0 && !d.in.Now.Before(deadline):
			d.act(GiveUp, i.ID, ReasonTimeout, "it is still %s after %s", i.State, d.in.Limits.RequestTimeout)
		case i.Unhealthy && i.Busy > 0:
			d.act(Drain, i.ID, ReasonUnhealthy, "it is not healthy; it takes no more tasks, and goes when those it has have ended")
		case i.Unhealthy:
			d.act(Remove, i.ID, ReasonUnhealthy, "it is not healthy")
		case d.exhausted(i) && i.Busy == 0:
			d.act(Remove, i.ID, ReasonExhausted, "it has taken %d tasks", i.Used)
		case d.exhausted(i): // it takes none any more by itself
		default:
			if i.State.pending() {
				d.wake(deadline)
			}
			d.serving = append(d.serving, i)
		}
	}
}

// reckon compares what there is with what is wanted.
func (d *decider) reckon() {
	f := &d.figures
	f.Queued, f.Instances = max(0, d.in.Demand.Queued), len(d.in.Instances)
	for _, i := range d.in.Instances {
		f.Busy += i.Busy
		if i.State.leaving() {
			f.Leaving++
		}
	}
	f.Leaving += len(d.actions) // whatever is retired
	for _, i := range d.serving {
		f.Free += d.free(i)
		d.slots += d.free(i) + i.Busy
		if i.State.pending() {
			f.Pending++
		}
	}
	waiting := d.waiting()
	f.Idle = idle(d.in.Terms, f.Busy+waiting)
	f.Wanted = waiting + f.Idle
	f.Required = ceil(f.Wanted-f.Free, d.perInstance())
	f.Target = max(0, f.Instances-f.Leaving+f.Required)
	f.Most = d.in.Limits.MaxInstances
	if q := d.in.Quota; q != nil && (f.Most == 0 || *q < f.Most) {
		f.Most = *q
	}
}

// waiting returns the tasks that slots must be free for.
func (d *decider) waiting() int {
	n := max(0, d.in.Demand.Queued)
	if d.in.Terms.Preemptive {
		n += max(0, d.in.Demand.Upcoming)
	}
	return n
}

// idle returns how many slots are to be free beside those for tasks that wait.
// Tasks that wait count as those that run: so it stays the same when they
// start.
func idle(t Terms, tasks int) int {
	n := ceil(t.FactorMilli*tasks, 1000)
	if t.FactorLimit > 0 {
		n = min(n, t.FactorLimit)
	}
	return max(n, t.IdleCount)
}

// ceil divides and rounds away from no machines: up, and for a surplus, down.
func ceil(n, by int) int {
	if n > 0 {
		return (n + by - 1) / by
	}
	return n / by
}

// perInstance returns the tasks that a new instance can take at once.
func (d *decider) perInstance() int {
	if most := d.in.Limits.MaxUse; most > 0 {
		return min(most, d.in.Limits.Capacity)
	}
	return d.in.Limits.Capacity
}

// grow asks for what is missing, as far as it may.
func (d *decider) grow() {
	n := d.figures.Required
	if n <= 0 {
		d.memory.Throttle = d.in.Memory.Throttle
		return
	}
	if d.limited() {
		if room := max(0, d.figures.Most-d.figures.Instances); room < n {
			n, d.held = room, ReasonMaxInstances
			if own := d.in.Limits.MaxInstances; own == 0 || d.figures.Most < own {
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
	reason, why := ReasonDemand, fmt.Sprintf("%d tasks wait and %d slots are to stay idle; %d are free", d.waiting(), d.figures.Idle, d.figures.Free)
	if d.waiting() == 0 {
		reason, why = ReasonIdleCount, fmt.Sprintf("%d slots are to stay idle; %d are free", d.figures.Idle, d.figures.Free)
	}
	d.actions = append(d.actions, Action{Kind: Request, Count: n, Reason: reason, Why: why})
}

// limited reports whether there is a limit to the number of instances. A quota
// of none is one too.
func (d *decider) limited() bool { return d.figures.Most > 0 || d.in.Quota != nil }

// backoff returns when asking may go on after failures.
func (d *decider) backoff() time.Time {
	if d.in.Failures < 1 {
		return time.Time{}
	}
	pause := backoffMost
	if doublings := d.in.Failures - 1; doublings < 6 {
		pause = min(pause, backoffFirst<<doublings)
	}
	return d.in.FailedAt.Add(pause)
}

// throttle takes tokens for n instances, or for as many as there are. The
// bucket is known by the time at which it is full again.
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
		// The next token is there when the bucket lacks all but one.
		d.wake(full.Add(every*time.Duration(got+1) - size))
	}
	d.memory.Throttle = full.Add(every * time.Duration(n))
	return n
}

// shrinkToLimit removes what is above a limit that was lowered, as far as it
// holds no task: first what is not ready.
func (d *decider) shrinkToLimit() {
	excess := d.figures.Instances - d.figures.Leaving - d.figures.Most
	if !d.limited() || excess <= 0 {
		return
	}
	for _, ready := range []bool{false, true} {
		d.serving = slices.DeleteFunc(d.serving, func(i Instance) bool {
			if excess == 0 || i.Busy > 0 || i.State.pending() == ready {
				return false
			}
			excess--
			d.drop(i, ReasonOverLimit, "%d instances are allowed", d.figures.Most)
			return true
		})
	}
}

// drop removes an instance that serves.
func (d *decider) drop(i Instance, reason Reason, format string, args ...any) {
	d.act(Remove, i.ID, reason, format, args...)
	d.figures.Free -= d.free(i)
	d.slots -= d.free(i)
	d.figures.Leaving++
}

// remember notes how many slots are wanted now. Of what was wanted before,
// only greater numbers matter.
func (d *decider) remember() {
	now := Peak{At: d.in.Now, Slots: d.figures.Wanted}
	for _, i := range d.serving {
		now.Slots += i.Busy
	}
	for i, p := range d.in.Memory.Peaks {
		if i == len(d.in.Memory.Peaks)-1 { // it was wanted until now
			p.At = d.in.Now
		}
		if p.Slots > now.Slots && d.in.Now.Before(p.At.Add(d.in.Limits.HoldDown)) {
			d.memory.Peaks = append(d.memory.Peaks, p)
		}
	}
	d.memory.Peaks = append(d.memory.Peaks, now)
	if n := len(d.memory.Peaks); n > maxPeaks {
		// Two become one that is as high as the higher and as late as the
		// later: holding on for too long is the safe side.
		d.memory.Peaks[n-3].At = d.memory.Peaks[n-2].At
		d.memory.Peaks = slices.Delete(d.memory.Peaks, n-2, n-1)
	}
}

// shrink removes instances that have been idle for long enough, as long as
// what stays is enough, and would have been for a while.
func (d *decider) shrink() {
	for _, i := range d.serving {
		if i.State != StateReady || i.Busy > 0 || d.figures.Free-d.free(i) < d.figures.Wanted {
			continue
		}
		due := i.IdleSince.Add(d.in.Terms.IdleTime)
		if until := d.heldUntil(d.slots - d.free(i)); until.After(due) {
			due = until
		}
		if d.in.Now.Before(due) {
			d.wake(due)
			continue
		}
		d.drop(i, ReasonIdle, "it was idle for %s and is not needed", d.in.Now.Sub(i.IdleSince).Round(time.Second))
	}
}

// heldUntil returns when so many slots will have been enough for as long as
// the hold-down says. Peaks get ever lower.
func (d *decider) heldUntil(slots int) time.Time {
	for _, p := range slices.Backward(d.memory.Peaks) {
		if p.Slots > slots {
			return p.At.Add(d.in.Limits.HoldDown)
		}
	}
	return time.Time{}
}
