package scaling_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/fleeting/scaling"
)

func TestDivide(t *testing.T) {
	t.Parallel()
	open := scaling.Supply{PerInstance: 1, Room: scaling.Unlimited}
	room := func(n int) scaling.Supply { return scaling.Supply{PerInstance: 1, Room: n} }
	off := scaling.Supply{PerInstance: 1, Room: scaling.Unlimited, Off: true}
	with := func(s scaling.Supply, change func(*scaling.Supply)) scaling.Supply { change(&s); return s }
	free := func(n int) func(*scaling.Supply) { return func(s *scaling.Supply) { s.Free = n } }
	preemptive := func(s *scaling.Supply) { s.Preemptive = true }
	upcoming := func(s *scaling.Supply) { s.Upcoming = true }
	warm := func(s *scaling.Supply) { s.Free, s.Ready, s.Idle = 2, 2, 2 }
	warming := func(s *scaling.Supply) { s.Free, s.Idle = 2, 2 }
	tests := []struct {
		name     string
		demand   scaling.PoolDemand
		fleets   []scaling.Supply
		queued   []int
		upcoming []int
	}{
		{"one fleet", scaling.PoolDemand{Queued: 4}, []scaling.Supply{open}, []int{4}, nil},
		{"the first of two", scaling.PoolDemand{Queued: 4}, []scaling.Supply{open, open}, []int{4, 0}, nil},
		{"the remaining tasks go to the next", scaling.PoolDemand{Queued: 9}, []scaling.Supply{room(2), room(3), open}, []int{2, 3, 4}, nil},
		{"tasks that no fleet has room for stay with the first", scaling.PoolDemand{Queued: 9}, []scaling.Supply{room(2), room(3)}, []int{6, 3}, nil},
		{"a fleet that is off is skipped", scaling.PoolDemand{Queued: 4}, []scaling.Supply{off, open}, []int{0, 4}, nil},
		{"a fleet that is off offers its free slots", scaling.PoolDemand{Queued: 4}, []scaling.Supply{with(off, free(3)), open}, []int{3, 1}, nil},
		{"all are off", scaling.PoolDemand{Queued: 4}, []scaling.Supply{off, off}, []int{4, 0}, nil},
		{"slots of the next fleet come before machines of the first", scaling.PoolDemand{Queued: 4}, []scaling.Supply{open, with(open, free(3))}, []int{1, 3}, nil},
		{
			"a machine has several slots",
			scaling.PoolDemand{Queued: 7},
			[]scaling.Supply{{PerInstance: 4, Room: 1}, {PerInstance: 2, Room: scaling.Unlimited}},
			[]int{4, 3},
			nil,
		},
		{"free slots of other executors", scaling.PoolDemand{Queued: 4, FreeSlots: []int{3}}, []scaling.Supply{open, open}, []int{1, 0}, nil},
		{"more of them than tasks", scaling.PoolDemand{Queued: 4, FreeSlots: []int{9}}, []scaling.Supply{open}, []int{0}, nil},
		{"free slots that do not take tasks", scaling.PoolDemand{Queued: 4, Overdue: 4, FreeSlots: []int{9}}, []scaling.Supply{open}, []int{4}, nil},
		{"free slots that do not take some", scaling.PoolDemand{Queued: 6, Overdue: 2, FreeSlots: []int{3}}, []scaling.Supply{open}, []int{3}, nil},
		{
			"upcoming tasks go to the fleets that take them",
			scaling.PoolDemand{Queued: 1, Upcoming: 2},
			[]scaling.Supply{open, with(open, upcoming)},
			[]int{1, 0},
			[]int{0, 2},
		},
		{
			"upcoming tasks take the remaining free slots",
			scaling.PoolDemand{Queued: 1, Upcoming: 5, FreeSlots: []int{2}},
			[]scaling.Supply{with(open, free(2)), with(room(1), upcoming), with(open, upcoming)},
			[]int{0, 0, 0},
			[]int{0, 1, 1},
		},
		{"idle slots take tasks where they are ready", scaling.PoolDemand{Queued: 3}, []scaling.Supply{open, with(open, warm)}, []int{1, 2}, nil},
		{"and not where they are starting", scaling.PoolDemand{Queued: 3}, []scaling.Supply{open, with(open, warming)}, []int{3, 0}, nil},
		{"unless there is no room for others", scaling.PoolDemand{Queued: 3}, []scaling.Supply{room(1), with(room(0), warming)}, []int{1, 2}, nil},
		{"a preemptive fleet takes what it has slots for", scaling.PoolDemand{Queued: 5}, []scaling.Supply{with(with(open, warm), preemptive), open}, []int{2, 3}, nil},
		{"and keeps the others if it is alone", scaling.PoolDemand{Queued: 5}, []scaling.Supply{with(with(open, warm), preemptive)}, []int{5}, nil},
		{"no demand", scaling.PoolDemand{}, []scaling.Supply{open, open}, []int{0, 0}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var queued, upcoming []int
			for _, s := range scaling.Divide(tt.demand, tt.fleets) {
				queued, upcoming = append(queued, s.Queued), append(upcoming, s.Upcoming)
			}
			require.Equal(t, tt.queued, queued)
			if tt.upcoming == nil {
				tt.upcoming = make([]int, len(tt.fleets))
			}
			require.Equal(t, tt.upcoming, upcoming)
		})
	}
}

func TestDivide_classes(t *testing.T) {
	t.Parallel()
	open := scaling.Supply{PerInstance: 1, Room: scaling.Unlimited}
	room := func(n int) scaling.Supply { return scaling.Supply{PerInstance: 1, Room: n} }
	ready := func(n int) scaling.Supply {
		return scaling.Supply{PerInstance: 1, Room: scaling.Unlimited, Free: n, Ready: n}
	}
	wide := scaling.Supply{PerInstance: 4, Room: 1}
	off := scaling.Supply{PerInstance: 1, Room: scaling.Unlimited, Off: true}
	class := func(queued int, fleets ...int) scaling.Class { return scaling.Class{Queued: queued, Fleets: fleets} }
	others := func(c scaling.Class, overdue int, slots ...int) scaling.Class {
		c.Overdue, c.Others = overdue, slots
		return c
	}
	for _, tt := range []struct {
		name    string
		queued  int
		classes []scaling.Class
		free    []int
		fleets  []scaling.Supply
		want    []int
	}{
		{"only the fleets that may run them", 0, []scaling.Class{class(4, 0, 1)}, nil, []scaling.Supply{open, open}, []int{0, 4}},
		{"the next fleet of those", 0, []scaling.Class{class(4, 1, 0, 1)}, nil, []scaling.Supply{room(1), open, open}, []int{1, 0, 3}},
		{"those that no fleet has room for", 0, []scaling.Class{class(4, 0, 1, 1)}, nil, []scaling.Supply{open, off, room(1)}, []int{0, 0, 4}},
		{"no fleet may run them", 0, []scaling.Class{class(4, 0, 0)}, nil, []scaling.Supply{open, open}, []int{0, 0}},
		{"before tasks that all may run", 3, []scaling.Class{class(2, 0, 1)}, nil, []scaling.Supply{open, ready(3)}, []int{2, 3}},
		{"in their order", 0, []scaling.Class{class(2, 0, 1), class(2, 1, 1)}, nil, []scaling.Supply{open, ready(3)}, []int{1, 3}},
		{"free slots of other executors", 6, []scaling.Class{others(class(3, 1), 0, 1, 0)}, []int{2, 5}, []scaling.Supply{open}, []int{1 + 1}},
		{"free slots that others have left", 6, []scaling.Class{others(class(3, 1), 0, 0, 1)}, []int{2, 5}, []scaling.Supply{open}, []int{6 - 2 - 2}},
		{"free slots that do not take tasks", 0, []scaling.Class{others(class(3, 1), 2, 1)}, []int{5}, []scaling.Supply{open}, []int{2}},
		{"tasks of several slots", 0, []scaling.Class{class(3, 2, 1)}, nil, []scaling.Supply{wide, open}, []int{4, 1}},
		{"that are too large for the free slots", 0, []scaling.Class{others(class(3, 2), 0, 3)}, []int{5}, []scaling.Supply{wide}, []int{4}},
		{"of which one has no room", 0, []scaling.Class{class(3, 2)}, nil, []scaling.Supply{wide}, []int{6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for i := range tt.classes {
				if tt.classes[i].Others == nil {
					tt.classes[i].Others = make([]int, len(tt.free))
				}
			}
			var got []int
			for _, s := range scaling.Divide(scaling.PoolDemand{Queued: tt.queued, Classes: tt.classes, FreeSlots: tt.free}, tt.fleets) {
				got = append(got, s.Queued)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// TestDivide_classes_properties checks that each task of a class goes to one of the
// fleets that may run it, and that the shares do not grow when there are more free slots.
func TestDivide_classes_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fleets := rapid.SliceOfN(rapid.Custom(drawSupply), 1, 5).Draw(t, "fleets")
		free := rapid.SliceOfN(rapid.IntRange(0, 6), 0, 3).Draw(t, "free_slots")
		draw := func(name string) scaling.Class {
			c := scaling.Class{Queued: rapid.IntRange(0, 20).Draw(t, name)}
			c.Overdue = rapid.IntRange(0, c.Queued).Draw(t, name+"_overdue")
			for _, f := range fleets {
				c.Fleets = append(c.Fleets, min(f.PerInstance, rapid.IntRange(0, 2).Draw(t, name+"_slots")))
			}
			for range free {
				c.Others = append(c.Others, rapid.IntRange(0, 2).Draw(t, name+"_other_slots"))
			}
			return c
		}
		c := draw("class")
		some, slots := false, 0
		for i, s := range scaling.Divide(scaling.PoolDemand{Classes: []scaling.Class{c}, FreeSlots: free}, fleets) {
			some = some || c.Fleets[i] > 0
			slots += s.Queued
			require.GreaterOrEqual(t, s.Queued, 0)
			if c.Fleets[i] == 0 {
				require.Zero(t, s.Queued, "fleet %d may not run them", i)
			} else {
				require.Zero(t, s.Queued%c.Fleets[i], "whole tasks")
			}
		}
		tasks := c.Queued - c.Overdue
		for i, n := range free {
			if c.Others[i] > 0 {
				tasks = max(0, tasks-n/c.Others[i])
			}
		}
		tasks += c.Overdue
		if !some {
			tasks = 0
		}
		require.GreaterOrEqual(t, slots, tasks)
		require.LessOrEqual(t, slots, 2*tasks)
		two := scaling.PoolDemand{Classes: []scaling.Class{c, draw("other")}, FreeSlots: free, Queued: rapid.IntRange(0, 9).Draw(t, "queued")}
		shares := scaling.Divide(two, fleets)
		require.Equal(t, shares, scaling.Divide(two, fleets), "all fleets compute the same")
	})
}

func TestSupplyOf(t *testing.T) {
	t.Parallel()
	in := scaling.Input{Now: noon, Limits: scaling.Limits{Capacity: 2, RequestTimeout: time.Hour}}
	require.Equal(t, scaling.Supply{PerInstance: 2, Room: scaling.Unlimited}, scaling.SupplyOf(in))
	in.Instances = []scaling.Instance{
		{ID: "1", State: scaling.StateRequested, RequestedAt: noon},
		{ID: "2", State: scaling.StateReady, Busy: 1},
		{ID: "3", State: scaling.StateDraining},
		{ID: "4", State: scaling.StateReady, Unhealthy: true},
	}
	require.Equal(t, 3, scaling.SupplyOf(in).Free, "draining and unhealthy instances take no tasks")
	require.Equal(t, 1, scaling.SupplyOf(in).Ready)
	in.Terms = scaling.Terms{IdleCount: 1, FactorMilli: 2000}
	require.Equal(t, 2, scaling.SupplyOf(in).Idle, "one task runs")
	in.Limits.MaxInstances = 6
	require.Equal(t, 2, scaling.SupplyOf(in).Room)
	quota := 5
	in.Quota = &quota
	require.Equal(t, 1, scaling.SupplyOf(in).Room)
	in.Failures, in.FailedAt = 1, noon
	require.Zero(t, scaling.SupplyOf(in).Room, "the cloud has just refused")
	in.FailedAt = noon.Add(-time.Minute)
	require.Equal(t, 1, scaling.SupplyOf(in).Room)
	in.Limits.MaxUse = 1
	require.Equal(t, 1, scaling.SupplyOf(in).PerInstance)
}

func drawSupply(t *rapid.T) scaling.Supply {
	s := scaling.Supply{
		Free: rapid.IntRange(0, 6).Draw(t, "free"), PerInstance: rapid.IntRange(1, 4).Draw(t, "per_instance"),
		Room: rapid.SampledFrom([]int{scaling.Unlimited, 0, 1, 2, 5}).Draw(t, "room"), Preemptive: rapid.Bool().Draw(t, "preemptive"), Upcoming: rapid.Bool().Draw(t, "upcoming"),
		Off: rapid.IntRange(0, 4).Draw(t, "off") == 0, Idle: rapid.IntRange(0, 4).Draw(t, "idle"),
	}
	s.Ready = rapid.IntRange(0, s.Free).Draw(t, "ready")
	return s
}

func drawDemand(t *rapid.T) scaling.PoolDemand {
	d := scaling.PoolDemand{
		Queued: rapid.IntRange(0, 30).Draw(t, "queued"), Upcoming: rapid.IntRange(0, 8).Draw(t, "upcoming"),
		FreeSlots: rapid.SliceOfN(rapid.IntRange(0, 6), 0, 3).Draw(t, "free_slots"),
	}
	d.Overdue = rapid.IntRange(0, d.Queued).Draw(t, "overdue")
	return d
}

// unserved returns how many tasks that every executor may run other slots do not take.
func unserved(d scaling.PoolDemand) int {
	n := d.Queued
	for _, free := range d.FreeSlots {
		n -= free
	}
	return max(d.Overdue, n, 0)
}

// TestDivide_properties checks that each task goes to one fleet, and that a
// fleet gets tasks for new machines only if the fleets before it are full.
func TestDivide_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		demand, fleets := drawDemand(t), rapid.SliceOfN(rapid.Custom(drawSupply), 1, 5).Draw(t, "fleets")
		shares := scaling.Divide(demand, fleets)
		require.Equal(t, shares, scaling.Divide(demand, fleets))
		queued, upcoming := 0, 0
		for i, s := range shares {
			require.True(t, s.Queued >= 0 && s.Upcoming >= 0)
			require.True(t, fleets[i].Upcoming || s.Upcoming == 0)
			queued, upcoming = queued+s.Queued, upcoming+s.Upcoming
		}
		require.Equal(t, unserved(demand), queued, "each task that other slots do not take goes to one fleet")
		require.LessOrEqual(t, upcoming, demand.Upcoming)
		for i, s := range shares {
			if s.Queued <= fleets[i].Free {
				continue
			}
			for j, before := range fleets[:i] {
				full := before.Off || before.Preemptive || before.Room != scaling.Unlimited && shares[j].Queued >= before.Free+before.Room*before.PerInstance
				require.True(t, full, "fleet %d needs machines although fleet %d has room", i, j)
			}
			for j, other := range fleets {
				require.GreaterOrEqual(t, shares[j].Queued, max(other.Ready, other.Free-other.Idle), "fleet %d has free slots", j)
			}
		}
	})
}

// TestDivide_requests_nothing_twice checks that the fleets of a pool, in any
// order of their decisions, together request what the demand and their own
// rules need, and no more.
func TestDivide_requests_nothing_twice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		demand := drawDemand(t)
		inputs := make([]scaling.Input, rapid.IntRange(1, 4).Draw(t, "fleets"))
		for i := range inputs {
			inputs[i] = scaling.Input{
				Now: noon, Limits: scaling.Limits{
					Capacity: rapid.IntRange(1, 4).Draw(t, "capacity"), MaxInstances: rapid.IntRange(0, 5).Draw(t, "max_instances"), RequestTimeout: time.Hour,
				},
				Instances: make([]scaling.Instance, rapid.IntRange(0, 2).Draw(t, "ready")),
				Terms:     scaling.Terms{IdleTime: time.Hour, IdleCount: rapid.IntRange(0, 3).Draw(t, "idle_count"), Upcoming: rapid.Bool().Draw(t, "upcoming")},
			}
		}
		for i, in := range inputs {
			if in.Limits.MaxInstances > 0 && in.Limits.MaxInstances < len(in.Instances) {
				inputs[i].Instances = in.Instances[:in.Limits.MaxInstances]
			}
			for j := range inputs[i].Instances {
				in.Instances[j] = scaling.Instance{ID: fmt.Sprintf("r%d", j), State: scaling.StateReady, IdleSince: noon}
			}
		}
		there := 0
		for _, in := range inputs {
			there += len(in.Instances) * in.Limits.Capacity
		}
		decide := func(i int) (asked int) {
			supply := make([]scaling.Supply, len(inputs))
			for j, in := range inputs {
				supply[j] = scaling.SupplyOf(in)
			}
			in := inputs[i]
			in.Demand = scaling.Divide(demand, supply)[i]
			for _, a := range scaling.Decide(in).Actions {
				require.Equal(t, scaling.Request, a.Kind)
				asked += a.Count
			}
			for range asked {
				inputs[i].Instances = append(inputs[i].Instances, scaling.Instance{
					ID: fmt.Sprintf("i%d", len(inputs[i].Instances)), State: scaling.StateRequested, RequestedAt: noon,
				})
			}
			return asked
		}
		for range rapid.IntRange(0, 10).Draw(t, "decisions") {
			decide(rapid.IntRange(0, len(inputs)-1).Draw(t, "fleet"))
		}
		for range 2 {
			for i := range inputs {
				decide(i)
			}
		}
		slots, maximum, limited := 0, unserved(demand)+demand.Upcoming, false
		for i, in := range inputs {
			require.Zero(t, decide(i), "no action is left")
			limited = limited || in.Limits.MaxInstances > 0
			slots += len(in.Instances) * in.Limits.Capacity
			maximum += in.Terms.IdleCount + in.Limits.Capacity - 1 // instances cannot be divided
		}
		require.LessOrEqual(t, slots-there, maximum)
		if !limited {
			require.GreaterOrEqual(t, slots, unserved(demand), "no task is left waiting")
		}
	})
}
