package scaling

import "slices"

// PoolDemand is the tasks of a pool that no executor has claimed, and the free
// slots that belong to no fleet.
type PoolDemand struct {
	Queued int // waiting tasks that each executor of the pool may run
	// Overdue is how many of them have waited for too long: FreeSlots do not
	// take these tasks, so they need machines.
	Overdue  int
	Upcoming int // tasks that are about to wait
	// Classes are the waiting tasks that only some executors may run. They are
	// divided first, in their order.
	Classes []Class
	// FreeSlots are those of the executors of the pool that belong to none of its
	// fleets, in groups of executors that may run the same classes.
	FreeSlots []int
}

// Class is tasks that the same executors may run.
type Class struct {
	Queued  int
	Overdue int // as in PoolDemand
	// Fleets and Others are how many slots a task takes on an instance of each
	// fleet, and on executors of each group of FreeSlots; 0: these may not run it.
	Fleets []int
	Others []int
}

// Unlimited is the Room of a fleet without a limit.
const Unlimited = -1

// Supply is the capacity of one fleet for the tasks of its pool.
type Supply struct {
	Free        int  // slots without a task, of instances that are or will be ready
	Ready       int  // the part of Free on ready instances
	Idle        int  // slots that its rules keep free, even while tasks wait
	PerInstance int  // concurrent tasks on a new instance, at least 1
	Room        int  // instances that it may request, or Unlimited
	Preemptive  bool // it requests no instances for waiting tasks
	Upcoming    bool // it takes upcoming tasks
	// Off reports that the fleet requests no instances, even below its limits,
	// for example because it is paused. Its free slots still count.
	Off bool
}

// SupplyOf returns the supply of the fleet of an input; it ignores the Demand.
// The throttle does not limit Room: it only delays instances, and another fleet
// need not replace them.
func SupplyOf(in Input) Supply {
	in.Demand = Demand{}
	d := &decider{in: in}
	d.sort()
	d.retire()
	d.computeFigures()
	s := Supply{
		Free: d.figures.Free, Idle: d.figures.Idle, PerInstance: max(1, d.perInstance()), Room: Unlimited,
		Preemptive: in.Terms.Preemptive, Upcoming: in.Terms.Upcoming,
	}
	s.Ready = d.readySlots()
	if d.limited() {
		s.Room = max(0, d.figures.Allowed-d.figures.Instances)
	}
	if in.Now.Before(d.backoff()) {
		s.Room = 0
	}
	return s
}

// Divide divides the demand of a pool among its fleets, in their order, and
// returns the share of each one, in slots. For the tasks of each class, and then for
// those that each executor may run:
//
//   - Slots that are free now take tasks first, on any fleet: those of
//     other executors, then those of the fleets.
//   - Then slots of starting instances take tasks, except for those that the
//     rules of their fleet keep idle.
//   - The remaining tasks go to the first fleet that has room for them, as far
//     as it has, then to the next. Tasks that no fleet has room for stay with
//     the first fleet that is not off, so that its status shows the limit.
//
// A fleet in preemptive mode takes tasks only on slots that it has. Upcoming tasks
// are divided after the waiting ones, among the fleets that take them.
// The result depends only on the arguments: all fleets of a pool compute the
// same result. A request of one fleet does not change the shares of the others.
func Divide(d PoolDemand, fleets []Supply) []Demand {
	p := &division{fleets: slices.Clone(fleets), others: slices.Clone(d.FreeSlots), shares: make([]Demand, len(fleets))}
	queued := func(s *Demand, n int) { s.Queued += n }
	for _, c := range d.Classes {
		p.divide(p.unserved(c), func(i int) int { return c.Fleets[i] }, queued)
	}
	all := Class{Queued: d.Queued, Overdue: d.Overdue, Others: slices.Repeat([]int{1}, len(p.others))}
	p.divide(p.unserved(all), func(int) int { return 1 }, queued)
	// An upcoming task may start on any remaining free slot.
	upcoming := max(0, d.Upcoming)
	for _, n := range p.others {
		upcoming = max(0, upcoming-n)
	}
	for _, s := range p.fleets {
		if !s.Upcoming {
			upcoming = max(0, upcoming-max(s.Ready, s.surplus()))
		}
	}
	p.divide(upcoming, func(i int) int {
		if p.fleets[i].Upcoming {
			return 1
		}
		return 0
	}, func(s *Demand, n int) { s.Upcoming += n })
	return p.shares
}

// division is the state of one call of Divide: fleets and others hold the remaining
// supply.
type division struct {
	fleets []Supply
	others []int
	shares []Demand
}

// unserved lets the free slots of other executors take tasks, and returns how many
// remain.
func (p *division) unserved(c Class) int {
	queued := max(0, c.Queued)
	overdue := min(queued, max(0, c.Overdue))
	waiting := queued - overdue
	for i, slots := range c.Others {
		if slots > 0 {
			taken := min(waiting, max(0, p.others[i])/slots)
			waiting -= taken
			p.others[i] -= taken * slots
		}
	}
	return overdue + waiting
}

// divide divides n tasks among the fleets. slots is how many of its slots a task takes
// on a fleet, 0 if the fleet does not take it.
func (p *division) divide(n int, slots func(fleet int) int, assign func(share *Demand, slots int)) {
	for _, fill := range []func(*Supply, int, int) int{(*Supply).fillReady, (*Supply).fillSurplus, (*Supply).grow} {
		for i := range p.fleets {
			if each := slots(i); each > 0 {
				assigned := fill(&p.fleets[i], n, each)
				n -= assigned
				assign(&p.shares[i], assigned*each)
			}
		}
	}
	if i := p.first(slots); i >= 0 && n > 0 {
		assign(&p.shares[i], n*slots(i))
	}
}

// fillReady assigns up to n tasks of some slots each to slots that are free now, and
// returns how many.
func (s *Supply) fillReady(n, each int) int {
	assigned := min(n, s.Ready/each)
	s.take(assigned * each)
	return assigned
}

// fillSurplus assigns up to n tasks to slots that need not stay idle, and
// returns how many.
func (s *Supply) fillSurplus(n, each int) int {
	assigned := min(n, s.surplus()/each)
	s.take(assigned * each)
	return assigned
}

// take takes slots, first those that are ready.
func (s *Supply) take(slots int) {
	s.Ready = max(0, s.Ready-slots)
	s.Free -= slots
}

// surplus returns the slots that tasks may take without a replacement for an
// idle slot. A fleet that has no room for replacements keeps no idle slots.
func (s *Supply) surplus() int {
	if s.Room == 0 {
		return s.Free
	}
	return max(0, s.Free-s.Idle)
}

// grow assigns up to n tasks to new instances, and returns how many. If there
// is not enough room for the idle slots too, tasks come first.
func (s *Supply) grow(n, each int) int {
	if n == 0 || s.Off || s.Preemptive {
		return 0
	}
	instances := max(0, ceil(n*each+s.Idle-s.Free, s.PerInstance))
	if s.Room != Unlimited {
		instances = min(instances, s.Room)
		s.Room -= instances
	}
	s.Free += instances * s.PerInstance
	assigned := min(n, s.Free/each)
	s.take(assigned * each)
	return assigned
}

// first returns the fleet that keeps the unassigned tasks, or -1 if there is
// none.
func (p *division) first(slots func(fleet int) int) int {
	off := -1
	for i, f := range p.fleets {
		switch {
		case slots(i) == 0:
		case !f.Off:
			return i
		case off < 0:
			off = i
		}
	}
	return off
}
