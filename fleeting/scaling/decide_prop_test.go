package scaling_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/fleeting/scaling"
)

// fleet is a fleet with random events.
type fleet struct {
	t         *rapid.T
	in        scaling.Input
	made      int
	requested int // total number of requested instances
	since     time.Time
}

func drawFleet(t *rapid.T) *fleet {
	f := &fleet{t: t, since: noon}
	f.in.Now = noon
	f.in.Limits = scaling.Limits{
		Capacity: rapid.IntRange(1, 4).Draw(t, "capacity"), MaxUse: rapid.IntRange(0, 6).Draw(t, "max_use"),
		MaxInstances: rapid.IntRange(0, 8).Draw(t, "max_instances"), HoldDown: seconds(0, 120).Draw(t, "hold_down"),
		RequestTimeout: seconds(30, 600).Draw(t, "request_timeout"),
	}
	if rapid.Bool().Draw(t, "throttled") {
		f.in.Limits.ThrottleEvery = seconds(1, 60).Draw(t, "every")
		f.in.Limits.ThrottleBurst = rapid.IntRange(1, 4).Draw(t, "burst")
	}
	f.drawTerms()
	return f
}

func seconds(minimum, maximum int) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.IntRange(minimum, maximum), func(n int) time.Duration { return time.Duration(n) * time.Second })
}

func (f *fleet) drawTerms() {
	f.in.Terms = scaling.Terms{
		IdleCount: rapid.IntRange(0, 6).Draw(f.t, "idle_count"), IdleTime: seconds(0, 300).Draw(f.t, "idle_time"),
		FactorMilli: rapid.SampledFrom([]int{0, 100, 500, 1100, 2000}).Draw(f.t, "factor"), FactorLimit: rapid.IntRange(0, 10).Draw(f.t, "factor_limit"),
		Preemptive: rapid.Bool().Draw(f.t, "preemptive"), Upcoming: rapid.Bool().Draw(f.t, "upcoming"),
	}
}

func (f *fleet) maxInstances() int {
	maximum := f.in.Limits.MaxInstances
	if f.in.Quota != nil && (maximum == 0 || *f.in.Quota < maximum) {
		maximum = *f.in.Quota
	}
	return maximum
}

// decide makes a decision, checks the invariants, and carries out the actions.
func (f *fleet) decide() scaling.Decision {
	d := scaling.Decide(f.in)
	shuffled := f.in
	shuffled.Instances = slices.Clone(f.in.Instances)
	slices.Reverse(shuffled.Instances)
	require.Empty(f.t, cmp.Diff(d, scaling.Decide(shuffled)), "the order of instances does not matter")
	require.True(f.t, d.NextAt.IsZero() || d.NextAt.After(f.in.Now))
	require.LessOrEqual(f.t, len(d.Memory.Peaks), 16)
	seen := make(map[string]bool)
	for _, a := range d.Actions {
		require.NotEmpty(f.t, a.Reason)
		require.NotEmpty(f.t, a.Message)
		if a.Kind == scaling.Request {
			f.request(a)
			continue
		}
		require.False(f.t, seen[a.ID], "one action per instance")
		seen[a.ID] = true
		f.end(a)
	}
	f.in.Memory = d.Memory
	f.requireReadySlots(d)
	return d
}

// requireReadySlots checks that the instances that are ready have the required
// free slots after others were removed because they are not needed.
func (f *fleet) requireReadySlots(d scaling.Decision) {
	if !slices.ContainsFunc(d.Actions, func(a scaling.Action) bool { return a.Reason == scaling.ReasonIdle }) {
		return
	}
	free := 0
	for _, i := range f.in.Instances {
		if i.State == scaling.StateReady && !i.Unhealthy {
			free += f.free(i)
		}
	}
	require.GreaterOrEqual(f.t, free, d.Figures.RequiredSlots, "only slots of ready instances replace those of removed ones")
}

func (f *fleet) free(i scaling.Instance) int {
	free := f.in.Limits.Capacity - i.Busy
	if f.in.Limits.MaxUse > 0 {
		free = min(free, f.in.Limits.MaxUse-i.Used)
	}
	return max(0, free)
}

func (f *fleet) request(a scaling.Action) {
	require.Positive(f.t, a.Count)
	f.requested += a.Count
	if l := f.in.Limits; l.ThrottleBurst > 0 {
		require.LessOrEqual(f.t, f.requested, l.ThrottleBurst+int(f.in.Now.Sub(f.since)/l.ThrottleEvery), "never faster than the throttle")
	}
	for range a.Count {
		f.made++
		f.in.Instances = append(f.in.Instances, scaling.Instance{ID: fmt.Sprintf("i%03d", f.made), State: scaling.StateRequested, RequestedAt: f.in.Now})
	}
	if f.in.Limits.MaxInstances > 0 || f.in.Quota != nil {
		require.LessOrEqual(f.t, len(f.in.Instances), f.maxInstances(), "never above the limits")
	}
}

func (f *fleet) end(a scaling.Action) {
	i := slices.IndexFunc(f.in.Instances, func(i scaling.Instance) bool { return i.ID == a.ID })
	require.GreaterOrEqual(f.t, i, 0)
	n := &f.in.Instances[i]
	require.NotContains(f.t, []scaling.State{scaling.StateDraining, scaling.StateDeleting}, n.State, "it is already being removed")
	switch a.Kind {
	case scaling.Drain:
		require.True(f.t, n.Unhealthy && n.Busy > 0)
	case scaling.GiveUp:
		require.NotEqual(f.t, scaling.StateReady, n.State)
		fallthrough
	default:
		require.Zero(f.t, n.Busy, "a busy instance is never removed")
	}
	if a.Reason == scaling.ReasonIdle {
		require.Equal(f.t, scaling.StateReady, n.State)
		require.GreaterOrEqual(f.t, f.in.Now.Sub(n.IdleSince), f.in.Terms.IdleTime)
	}
	n.State = scaling.StateDraining
}

// randomEvent applies one random event.
func (f *fleet) randomEvent() {
	f.in.Now = f.in.Now.Add(seconds(0, 200).Draw(f.t, "pass"))
	switch rapid.IntRange(0, 9).Draw(f.t, "what") {
	case 0, 1:
		f.in.Demand.Queued = min(30, f.in.Demand.Queued+rapid.IntRange(1, 12).Draw(f.t, "arrive"))
	case 2:
		f.in.Demand.Upcoming = rapid.IntRange(0, 6).Draw(f.t, "upcoming")
	case 3:
		f.drawTerms()
	case 4:
		f.in.Limits.MaxInstances = rapid.IntRange(0, 8).Draw(f.t, "max_instances")
	case 5:
		f.in.Quota = nil
		if n := rapid.IntRange(-1, 8).Draw(f.t, "quota"); n >= 0 {
			f.in.Quota = &n
		}
	case 6:
		f.in.Failures, f.in.FailedAt = rapid.IntRange(0, 10).Draw(f.t, "failures"), f.in.Now
	default:
		if n := len(f.in.Instances); n > 0 {
			f.randomInstanceEvent(rapid.IntRange(0, n-1).Draw(f.t, "instance"))
		}
	}
}

// randomInstanceEvent applies one random event to an instance.
func (f *fleet) randomInstanceEvent(i int) {
	n := &f.in.Instances[i]
	switch what := rapid.IntRange(0, 9).Draw(f.t, "event"); {
	case what == 0:
		f.in.Instances = slices.Delete(f.in.Instances, i, i+1) // it vanished, possibly with tasks
	case what == 1:
		n.Unhealthy = true
	case n.State != scaling.StateReady && n.State != scaling.StateDraining && n.State != scaling.StateDeleting:
		n.State, n.IdleSince = scaling.StateReady, f.in.Now
	case what < 5 && n.Busy > 0:
		n.Busy--
		n.IdleSince = f.in.Now
	case n.State == scaling.StateReady:
		for f.in.Demand.Queued > 0 && n.Busy < f.in.Limits.Capacity && (f.in.Limits.MaxUse == 0 || n.Used < f.in.Limits.MaxUse) {
			f.in.Demand.Queued--
			n.Busy++
			n.Used++
		}
	case n.Busy == 0:
		f.in.Instances = slices.Delete(f.in.Instances, i, i+1)
	}
}

// completeActions completes all requests and removals, and reports whether there were any.
func (f *fleet) completeActions() (changed bool) {
	before := slices.Clone(f.in.Instances)
	f.in.Instances = slices.DeleteFunc(f.in.Instances, func(i scaling.Instance) bool { return i.State == scaling.StateDraining && i.Busy == 0 })
	for i := range f.in.Instances {
		if n := &f.in.Instances[i]; n.State == scaling.StateRequested {
			n.State, n.IdleSince = scaling.StateReady, f.in.Now
		}
	}
	return !slices.Equal(before, f.in.Instances)
}

// TestDecide_properties checks that limits hold and busy instances stay during
// all events. After the last event, the fleet reaches a stable state without
// removing instances that it requests again.
func TestDecide_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(t)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			f.randomEvent()
			f.decide()
		}
		f.stabilize()
	})
}

// stabilize keeps the demand constant.
func (f *fleet) stabilize() {
	removed := false
	for range 2000 { // some throttles allow one instance per minute
		d := f.decide()
		for _, a := range d.Actions {
			require.False(f.t, removed && a.Kind == scaling.Request, "it requests an instance again after it removed one")
			removed = removed || a.Reason == scaling.ReasonIdle
		}
		changed := f.completeActions()
		switch {
		case changed || len(d.Actions) > 0:
			f.in.Now = f.in.Now.Add(time.Second)
		case d.NextAt.IsZero():
			f.requireStable()
			return
		default:
			f.in.Now = d.NextAt
		}
	}
	f.t.Fatal("the fleet does not reach a stable state")
}

// requireStable checks that the fleet matches its rules.
func (f *fleet) requireStable() {
	f.in.Now = f.in.Now.Add(1000 * time.Hour)
	d := scaling.Decide(f.in)
	require.Empty(f.t, d.Actions, "the stable state has no actions")
	limited := f.in.Limits.MaxInstances > 0 || f.in.Quota != nil
	require.True(f.t, d.Figures.Required <= 0 || limited && d.Figures.Instances >= f.maxInstances(), "all required instances exist: %+v", d.Figures)
	for _, i := range f.in.Instances {
		free := f.free(i)
		if i.Busy == 0 && i.State == scaling.StateReady {
			require.Less(f.t, d.Figures.Free-free, d.Figures.RequiredSlots, "no instance is surplus")
		}
	}
}
