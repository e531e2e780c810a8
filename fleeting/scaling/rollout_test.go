package scaling_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/run"
)

// old and current return n instances in a state, of an earlier revision and of
// the current one.
func old(n int, state scaling.State, busy int) []scaling.Instance {
	return instances("o", n, state, busy, true)
}

func current(n int, state scaling.State, busy int) []scaling.Instance {
	return instances("c", n, state, busy, false)
}

func instances(prefix string, n int, state scaling.State, busy int, outdated bool) (out []scaling.Instance) {
	for i := range n {
		out = append(out, scaling.Instance{ID: fmt.Sprintf("%s-%s-%d-%d", prefix, state, busy, i), State: state, Busy: busy, Outdated: outdated})
	}
	return out
}

func TestReplace(t *testing.T) {
	t.Parallel()
	quarter := run.FleetUpdate{}
	surgeOnly := run.FleetUpdate{MaxSurge: "1", MaxUnavailable: "0"}
	for name, test := range map[string]struct {
		instances         []scaling.Instance
		required, allowed int
		update            run.FleetUpdate
		drain             []string
		surge             int
	}{
		"no outdated instance": {instances: current(4, scaling.StateReady, 0), required: 4, allowed: scaling.Unlimited},
		"a quarter is drained and a quarter is added": {
			instances: old(4, scaling.StateReady, 1), required: 4, allowed: scaling.Unlimited, update: quarter,
			drain: []string{"o-ready-1-0"}, surge: 1,
		},
		"the surge comes first if none may be missing": {
			instances: old(4, scaling.StateReady, 1), required: 4, allowed: scaling.Unlimited, update: surgeOnly, surge: 1,
		},
		"a ready replacement drains one": {
			instances: slices.Concat(old(4, scaling.StateReady, 1), current(1, scaling.StateReady, 0)), required: 4, allowed: scaling.Unlimited,
			update: surgeOnly, drain: []string{"o-ready-1-0"}, surge: 1,
		},
		"a starting replacement drains none": {
			instances: slices.Concat(old(4, scaling.StateReady, 1), current(1, scaling.StateBooting, 0)), required: 4, allowed: scaling.Unlimited,
			update: surgeOnly, surge: 1,
		},
		"idle instances come first, and unneeded ones are not replaced": {
			instances: slices.Concat(old(1, scaling.StateReady, 1), old(2, scaling.StateReady, 0)), required: 1, allowed: scaling.Unlimited,
			update: surgeOnly, drain: []string{"o-ready-0-0", "o-ready-0-1"}, surge: 1,
		},
		"instances that are not ready take no tasks": {
			instances: slices.Concat(old(1, scaling.StateReady, 1), old(1, scaling.StateBooting, 0), old(1, scaling.StateCreating, 0)), required: 1,
			allowed: scaling.Unlimited, update: surgeOnly, drain: []string{"o-bootstrapping-0-0", "o-creating-0-0"}, surge: 1,
		},
		"a request has no machine to drain": {
			instances: slices.Concat(old(1, scaling.StateRequested, 0), current(1, scaling.StateReady, 1)), required: 1, allowed: scaling.Unlimited,
			update: surgeOnly, surge: 1,
		},
		"an empty need drains all": {
			instances: old(3, scaling.StateReady, 0), allowed: scaling.Unlimited,
			drain: []string{"o-ready-0-0", "o-ready-0-1", "o-ready-0-2"},
		},
		"limits without room for a surge let one be missing": {
			instances: old(2, scaling.StateReady, 1), required: 5, allowed: 2, update: surgeOnly,
			drain: []string{"o-ready-1-0"}, surge: 1,
		},
		"one is missing already": {
			instances: slices.Concat(old(1, scaling.StateReady, 1), old(1, scaling.StateDraining, 1), current(1, scaling.StateRequested, 0)), required: 2,
			allowed: 2, update: surgeOnly, surge: 1,
		},
		"unhealthy instances are not available": {
			instances: slices.Concat(old(3, scaling.StateReady, 1), []scaling.Instance{{ID: "ill", State: scaling.StateReady, Unhealthy: true}}), required: 4,
			allowed: scaling.Unlimited, update: quarter, surge: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := scaling.Replace(scaling.Replacing{Instances: test.instances, Required: test.required, Allowed: test.allowed, Update: test.update})
			require.ElementsMatch(t, test.drain, got.Drain)
			require.Equal(t, test.surge, got.Surge)
		})
	}
}

// rollout is a fleet with a random history, in which outdated instances are
// replaced as the controller does it.
type rollout struct {
	*fleet
	update run.FleetUpdate
	made   int
}

func drawAmount(t *rapid.T, name string) run.Amount {
	if rapid.Bool().Draw(t, name+"_percent") {
		return run.Amount(strconv.Itoa(rapid.IntRange(0, 100).Draw(t, name)) + "%")
	}
	return run.Amount(strconv.Itoa(rapid.IntRange(0, 4).Draw(t, name)))
}

// round makes one decision, checks the bounds, and carries it out.
func (r *rollout) round() {
	t, in := r.t, &r.in
	in.Surge, in.Room = 0, nil
	first := scaling.Decide(*in)
	before := len(in.Instances)
	q := scaling.Replacing{Instances: in.Instances, Required: first.Figures.Target, Needed: first.Figures.Needed, Allowed: scaling.Unlimited, Update: r.update}
	if in.Limits.MaxInstances > 0 {
		q.Allowed = in.Limits.MaxInstances
	}
	d := scaling.Replace(q)
	surge, unavailable := r.update.Bounds(d.Size)
	require.LessOrEqual(t, d.Surge, surge)
	ready, drained := 0, 0
	for _, i := range in.Instances {
		if i.State == scaling.StateReady && !i.Unhealthy {
			ready++
		}
		if !slices.Contains(d.Drain, i.ID) {
			continue
		}
		require.True(t, i.Outdated, "only outdated instances are replaced")
		require.False(t, i.State == scaling.StateDraining || i.State == scaling.StateDeleting)
		if i.State == scaling.StateReady {
			drained++
		}
	}
	if drained > 0 {
		require.GreaterOrEqual(t, ready-drained, d.Size-max(1, unavailable), "enough instances stay ready")
	}
	for k := range in.Instances {
		if slices.Contains(d.Drain, in.Instances[k].ID) {
			in.Instances[k].State = scaling.StateDraining
		}
	}
	in.Surge, in.Room = d.Surge, d.Room
	second := scaling.Decide(*in)
	// The shortage of slots for tasks, in instances.
	tasks := in.Demand.Queued
	if in.Terms.Upcoming {
		tasks += in.Demand.Upcoming
	}
	withoutSlot := (max(0, tasks-slots(in)) + r.perInstance() - 1) / r.perInstance()
	require.GreaterOrEqual(t, *second.Room, withoutSlot, "a rollout keeps no task waiting")
	for _, a := range second.Actions {
		k := slices.IndexFunc(in.Instances, func(i scaling.Instance) bool { return i.ID == a.ID })
		switch a.Kind {
		case scaling.Request:
			for range a.Count {
				r.made++
				in.Instances = append(in.Instances, scaling.Instance{ID: "n" + strconv.Itoa(r.made), State: scaling.StateRequested, RequestedAt: in.Now})
			}
			if withoutSlot > 0 && !in.Terms.Preemptive {
				require.NotEqual(t, scaling.ReasonRollout, a.Reason, "the instance is for a task: %s", a.Message)
			}
			require.LessOrEqual(t, len(in.Instances), max(first.Figures.Needed+surge, before+withoutSlot),
				"of all instances, in any state, there are no more than the surge, unless tasks have no slot")
			if limit := in.Limits.MaxInstances; limit > 0 {
				require.LessOrEqual(t, len(in.Instances), limit)
			}
		case scaling.GiveUp, scaling.Drain:
			in.Instances[k].State = scaling.StateDraining
		case scaling.Remove:
			require.Zero(t, in.Instances[k].Busy, "an instance with tasks is never removed")
			in.Instances[k].State = scaling.StateDraining
		}
	}
	in.Memory = second.Memory
}

// slots returns the free slots of the instances that serve.
func slots(in *scaling.Input) (n int) {
	for _, i := range in.Instances {
		deadline := i.RequestedAt.Add(in.Limits.RequestTimeout)
		starting := i.State == scaling.StateRequested || i.State == scaling.StateCreating || i.State == scaling.StateBooting
		if i.State == scaling.StateReady && !i.Unhealthy || starting && in.Now.Before(deadline) {
			n += in.Limits.Capacity - i.Busy
		}
	}
	return n
}

func (r *rollout) perInstance() int {
	if r.in.Limits.MaxUse > 0 {
		return min(r.in.Limits.MaxUse, r.in.Limits.Capacity)
	}
	return r.in.Limits.Capacity
}

// proceed lets instances start, and drained ones go if they are not slow.
func (r *rollout) proceed(slow func() bool) {
	for k := range r.in.Instances {
		i := &r.in.Instances[k]
		switch i.State {
		case scaling.StateRequested:
			i.State = scaling.StateCreating
		case scaling.StateCreating:
			i.State = scaling.StateBooting
		case scaling.StateBooting:
			i.State, i.IdleSince = scaling.StateReady, r.in.Now
		case scaling.StateReady, scaling.StateDraining, scaling.StateDeleting:
		}
	}
	// Only an instance without tasks is deleted.
	r.in.Instances = slices.DeleteFunc(r.in.Instances, func(i scaling.Instance) bool {
		return (i.State == scaling.StateDraining || i.State == scaling.StateDeleting) && i.Busy == 0 && !slow()
	})
}

func TestReplace_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := &rollout{fleet: drawFleet(t)}
		r.in.Limits.MaxUse, r.in.Limits.ThrottleBurst, r.in.Limits.ThrottleEvery = 0, 0, 0
		r.update = run.FleetUpdate{MaxSurge: drawAmount(t, "surge"), MaxUnavailable: drawAmount(t, "unavailable")}
		most := 6
		if limit := r.in.Limits.MaxInstances; limit > 0 {
			most = min(most, limit)
		}
		for i := range rapid.IntRange(0, most).Draw(t, "instances") {
			state := rapid.SampledFrom([]scaling.State{
				scaling.StateReady, scaling.StateReady, scaling.StateBooting, scaling.StateCreating, scaling.StateRequested, scaling.StateDraining, scaling.StateDeleting,
			}).Draw(t, "state")
			x := scaling.Instance{ID: strconv.Itoa(i), State: state, RequestedAt: r.in.Now, IdleSince: r.in.Now, Outdated: rapid.Bool().Draw(t, "outdated")}
			if state == scaling.StateReady || state == scaling.StateDraining {
				x.Busy = rapid.IntRange(0, r.in.Limits.Capacity).Draw(t, "busy")
			}
			r.in.Instances = append(r.in.Instances, x)
		}
		for range rapid.IntRange(0, 10).Draw(t, "rounds") {
			r.in.Demand.Queued = rapid.IntRange(0, 10).Draw(t, "queued")
			for k := range r.in.Instances { // tasks end, and ready instances take others
				i := &r.in.Instances[k]
				switch i.State {
				case scaling.StateReady:
					i.Busy = rapid.IntRange(0, r.in.Limits.Capacity).Draw(t, "busy")
				case scaling.StateDraining:
					i.Busy = rapid.IntRange(0, i.Busy).Draw(t, "busy")
				case scaling.StateRequested, scaling.StateCreating, scaling.StateBooting, scaling.StateDeleting:
				}
			}
			r.round()
			r.proceed(func() bool { return rapid.Bool().Draw(t, "slow") })
			r.in.Now = r.in.Now.Add(time.Second)
		}
		// If the tasks end and every instance starts, the rollout ends.
		r.in.Demand = scaling.Demand{}
		for range 100 {
			for k := range r.in.Instances {
				if r.in.Instances[k].State == scaling.StateDraining {
					r.in.Instances[k].Busy = 0
				}
			}
			r.round()
			r.proceed(func() bool { return false })
			r.in.Now = r.in.Now.Add(time.Second)
		}
		require.False(t, slices.ContainsFunc(r.in.Instances, func(i scaling.Instance) bool { return i.Outdated }), "the rollout ends: %v", r.in.Instances)
	})
}

// TestReplace_machines_that_are_slow_to_end counts the machines of a rollout
// whose drained machines exist for a minute.
func TestReplace_machines_that_are_slow_to_end(t *testing.T) {
	t.Parallel()
	const size, minute = 4, 60
	for _, test := range []struct {
		surge, unavailable run.Amount
		most, ready        int
		tasks              int // slots of each old machine that have a task
	}{
		{surge: "1", unavailable: "0", most: 5, ready: 4},
		{surge: "2", unavailable: "0", most: 6, ready: 4},
		{surge: "0", unavailable: "1", most: 4, ready: 3},
		{surge: "0", unavailable: "0", most: 4, ready: 3},
		{surge: "25%", unavailable: "25%", most: 5, ready: 3},
		{surge: "0", unavailable: "100%", most: 4, ready: 0},
		// The tasks end with the old machines, so that fewer machines are needed.
		{surge: "1", unavailable: "0", most: 5, ready: 3, tasks: 1},
		{surge: "25%", unavailable: "25%", most: 5, ready: 3, tasks: 1},
	} {
		t.Run(fmt.Sprintf("surge %s unavailable %s tasks %d", test.surge, test.unavailable, test.tasks), func(t *testing.T) {
			t.Parallel()
			in := scaling.Input{
				Now: noon, Limits: scaling.Limits{Capacity: 2, RequestTimeout: time.Hour, HoldDown: time.Minute},
				Terms: scaling.Terms{IdleCount: 2*size - test.tasks*size, IdleTime: time.Hour}, Instances: instances("old", size, scaling.StateReady, test.tasks, true),
			}
			update := run.FleetUpdate{MaxSurge: test.surge, MaxUnavailable: test.unavailable}
			until := map[string]time.Time{} // when an instance is gone
			most, ready, made := 0, size, 0
			for second := 0; slices.ContainsFunc(in.Instances, func(i scaling.Instance) bool { return i.Outdated }); second++ {
				require.Less(t, second, 100*minute, "the rollout ends: %v", in.Instances)
				in.Surge, in.Room = 0, nil
				f := scaling.Decide(in).Figures
				r := scaling.Replace(scaling.Replacing{Instances: in.Instances, Required: f.Target, Needed: f.Needed, Allowed: scaling.Unlimited, Update: update})
				in.Surge, in.Room = r.Surge, r.Room
				leave := func(id string) {
					k := slices.IndexFunc(in.Instances, func(i scaling.Instance) bool { return i.ID == id })
					in.Instances[k].State = scaling.StateDraining
					until[id] = in.Now.Add(minute * time.Second)
				}
				for _, id := range r.Drain {
					leave(id)
				}
				for k := range in.Instances {
					if i := &in.Instances[k]; i.State == scaling.StateRequested {
						i.State, i.IdleSince = scaling.StateReady, in.Now
					}
				}
				d := scaling.Decide(in)
				for _, a := range d.Actions {
					if a.Kind != scaling.Request {
						leave(a.ID)
						continue
					}
					for range a.Count {
						made++
						in.Instances = append(in.Instances, scaling.Instance{ID: "n" + strconv.Itoa(made), State: scaling.StateRequested, RequestedAt: in.Now})
					}
				}
				in.Memory = d.Memory
				n := 0
				for _, i := range in.Instances {
					if i.State == scaling.StateReady {
						n++
					}
				}
				most, ready = max(most, len(in.Instances)), min(ready, n)
				in.Now = in.Now.Add(time.Second)
				in.Instances = slices.DeleteFunc(in.Instances, func(i scaling.Instance) bool {
					return i.State == scaling.StateDraining && !in.Now.Before(until[i.ID])
				})
			}
			require.Equal(t, []int{test.most, test.ready}, []int{most, ready}, "most machines, and fewest ready ones")
		})
	}
}
