package controller

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// demandTimeout is how long the tasks of a pool wait for a fleet that has no
// worker, or whose plugin does not list its instances. After that they go to
// the next fleet. It is longer than a restart of the worker or the plugin.
const demandTimeout = time.Minute

// pool holds the fleets of one pool, as one of them sees them. It depends on
// the records alone, except for what only a fleet's worker knows about its own
// plugin.
type pool struct {
	self    int // index of the fleet that is planned
	members []member
	supply  []scaling.Supply
	sharing [][]records.QuotaShare // by member
	shares  []scaling.Demand
}

// member is one fleet of the pool.
type member struct {
	view  records.FleetView
	input scaling.Input
	off   bool
}

// newPool divides the demand of the pool among its fleets.
func newPool(s planInput, own scaling.Input) *pool {
	p := &pool{members: []member{{view: s.view, input: own, off: !scalesOnDemand(s.view.Fleet) || !s.trusted && !hasWorker(s.view.Fleet, s.now)}}}
	for _, v := range s.view.Pool {
		p.members = append(p.members, siblingOf(v, s.now))
	}
	slices.SortFunc(p.members, func(a, b member) int {
		return cmp.Or(cmp.Compare(b.view.Fleet.Spec.Priority, a.view.Fleet.Spec.Priority), strings.Compare(a.view.Fleet.Name, b.view.Fleet.Name))
	})
	p.self = slices.IndexFunc(p.members, func(m member) bool { return m.view.Fleet.Name == s.view.Fleet.Name })
	for _, m := range p.members {
		p.supply = append(p.supply, m.supply())
	}
	demand := p.demand(s.view)
	demand.Upcoming = s.upcoming
	p.limitByQuotas(demand)
	p.shares = scaling.Divide(demand, p.supply)
	return p
}

func (m member) supply() scaling.Supply {
	s := scaling.SupplyOf(m.input)
	s.Off = m.off
	return s
}

// demand returns the waiting tasks of the pool, by the executors that may run them.
// The tasks that the fewest fleets may run are divided first.
func (p *pool) demand(v records.FleetView) (d scaling.PoolDemand) {
	for _, free := range v.FreeSlots {
		d.FreeSlots = append(d.FreeSlots, free.Free)
	}
	for _, tasks := range v.Tasks {
		if len(tasks.Labels) == 0 {
			d.Queued, d.Overdue = d.Queued+tasks.Queued, d.Overdue+tasks.Overdue
			continue
		}
		c := scaling.Class{Queued: tasks.Queued, Overdue: tasks.Overdue}
		for i, m := range p.members {
			spec := m.view.Fleet.Spec
			own := run.Pool{Labels: v.PoolLabels}.WithLabels(spec.ExecutorLabels(m.view.Fleet.Name))
			// An instance of few uses takes fewer tasks at a time than it has slots.
			c.Fleets = append(c.Fleets, min(p.supply[i].PerInstance, slotsOf(tasks.Labels, own, max(1, spec.CapacityPerInstance))))
		}
		for _, free := range v.FreeSlots {
			c.Others = append(c.Others, slotsOf(tasks.Labels, free.Labels, free.Slots))
		}
		d.Classes = append(d.Classes, c)
	}
	fleets := func(c scaling.Class) (n int) {
		for _, slots := range c.Fleets {
			n += min(1, slots)
		}
		return n
	}
	slices.SortStableFunc(d.Classes, func(a, b scaling.Class) int { return cmp.Compare(fleets(a), fleets(b)) })
	return d
}

// slotsOf returns how many slots a task takes on an executor, 0 if that lacks the
// labels or the resources.
func slotsOf(required, own map[string]string, slots int) int {
	if !run.HasLabels(own, required) {
		return 0
	}
	return run.ResourcesOf(required).Capacity().Slots(run.ResourcesOf(own).Capacity(), slots)
}

// queuedFor returns how many queued tasks of the pool the instances of a fleet may run.
func queuedFor(v records.FleetView) (n int) {
	own := run.Pool{Labels: v.PoolLabels}.WithLabels(v.Fleet.Spec.ExecutorLabels(v.Fleet.Name))
	for _, tasks := range v.Tasks {
		if run.HasLabels(own, tasks.Labels) {
			n += tasks.Queued
		}
	}
	return n
}

// siblingOf returns another fleet of the pool.
func siblingOf(v records.FleetView, now time.Time) member {
	m := member{view: v, off: !scalesOnDemand(v.Fleet) || !hasWorker(v.Fleet, now)}
	rules, faults := scaling.Compile(v.Fleet.Spec.Scaling)
	if len(faults) > 0 { // the worker of that fleet cannot use these rules either
		m.off, m.input.Limits.Capacity = true, 1
		return m
	}
	m.input = inputOf(v, rules, maxSizeOf(v.Fleet.Status.MaxSize), readMemory(v.PolicyState), now)
	return m
}

// scalesOnDemand reports whether waiting tasks make a fleet request instances.
func scalesOnDemand(f run.Fleet) bool { return f.Mode == run.FleetActive && f.Desired == nil }

// hasWorker reports whether a fleet has a worker, or may have one soon.
func hasWorker(f run.Fleet, now time.Time) bool {
	last := f.Status.SeenAt
	if f.CreatedAt.After(last) {
		last = f.CreatedAt
	}
	return now.Sub(last) <= demandTimeout
}

// limitByQuotas limits what each fleet may add. The fleets of a pool may share a
// quota: the earlier fleets take what they need for the demand, and the later fleets
// leave that capacity to them.
func (p *pool) limitByQuotas(d scaling.PoolDemand) {
	var unserved []int
	for i := range p.members {
		unserved = append(unserved, p.unserved(i, d))
	}
	grants := make([]int, len(p.members))
	for i, left := range unserved {
		p.sharing = append(p.sharing, p.sharingOf(i, grants))
		if m := &p.members[i]; m.view.Fleet.Spec.Quota != nil {
			n := len(m.input.Instances)
			share := shareOf(m.input.Now, m.view.Fleet, n, n+instancesFor(left, p.supply[i]), p.sharing[i])
			m.input.Quota = &share
			p.supply[i] = m.supply()
			m.input.Quota = nil
		}
		if s := p.supply[i]; !s.Off {
			grants[i] = instancesFor(left, s)
			if s.Room != scaling.Unlimited {
				grants[i] = min(grants[i], s.Room)
			}
		}
	}
}

// unserved returns how many slots the tasks need that a fleet may run, beyond the free
// ones of all fleets that may run them: of the tasks of one class, or of all its tasks
// together, whichever is more.
func (p *pool) unserved(fleet int, d scaling.PoolDemand) int {
	all := d.Queued + d.Upcoming
	most := 0
	for _, c := range d.Classes {
		if c.Fleets[fleet] == 0 {
			continue
		}
		slots := c.Queued * c.Fleets[fleet]
		all += slots
		for i, s := range p.supply {
			if c.Fleets[i] > 0 {
				slots -= max(s.Ready, s.Free-s.Idle)
			}
		}
		most = max(most, slots)
	}
	for _, s := range p.supply {
		all -= max(s.Ready, s.Free-s.Idle)
	}
	return max(most, all)
}

// instancesFor returns how many new instances a fleet needs for the given
// number of tasks.
func instancesFor(tasks int, s scaling.Supply) int {
	if s.Preemptive {
		tasks = 0 // it keeps idle slots, and requests none for tasks
	}
	return (max(0, tasks+s.Idle-s.Free) + s.PerInstance - 1) / s.PerInstance
}

// sharingOf returns what the other fleets use of the quota of member i.
func (p *pool) sharingOf(i int, grants []int) []records.QuotaShare {
	out := slices.Clone(p.members[i].view.QuotaShares)
	for k := range out {
		q := &out[k]
		j := slices.IndexFunc(p.members, func(m member) bool { return m.view.Fleet.Name == q.Fleet })
		if j < 0 {
			continue
		}
		q.Target = min(q.Target, q.Instances)
		if j < i && grants[j] > 0 {
			q.Instances += grants[j]
			q.Target = q.Instances
		}
	}
	return out
}

// inputOf returns the input of a scaling decision, without demand and quota.
// maximum is the limit of the plugin, 0 for none.
func inputOf(v records.FleetView, rules *scaling.Rules, maximum int, m memory, now time.Time) scaling.Input {
	in := scaling.Input{
		Now: now, Limits: rules.Limits(), Terms: rules.At(now),
		Failures: m.Failures, FailedAt: m.FailedAt, Memory: m.Scaling,
	}
	if maximum > 0 && (in.Limits.MaxInstances == 0 || maximum < in.Limits.MaxInstances) {
		in.Limits.MaxInstances = maximum
	}
	for _, r := range rowsOf(v) {
		if r.ReadyAt.After(m.FailedAt) { // an instance became ready after the failure
			in.Failures = 0
		}
		if r.State != run.InstanceIgnored {
			i := r.scalingInstance(now, v.Fleet.Spec.Failures())
			i.Outdated = r.Revision != v.Fleet.Revision
			in.Instances = append(in.Instances, i)
		}
	}
	return in
}

// room returns a function that computes how many instances of a request the
// ledger accepts: since the plan was made, other fleets of the pool or of the
// quota may have requested some. It returns nil if there are no other fleets.
func (s *step) room(ctx context.Context, q Request) (func(records.FleetView) int, error) {
	spec := s.view.Fleet.Spec
	if len(s.view.Pool) == 0 && spec.Quota == nil {
		return nil, nil
	}
	rules, faults := scaling.Compile(spec.Scaling)
	if len(faults) > 0 {
		return nil, run.InvalidError("the scaling settings of fleet "+s.name+" are not valid", faults)
	}
	now := planInput{now: s.w.now(), rules: rules, maxSize: s.maxSize(), trusted: true}
	if rules.At(now.now).Upcoming {
		var err error
		if now.upcoming, err = s.w.store.UpcomingTasks(ctx, spec.Pool, maxUpcomingRuns); err != nil {
			return nil, err
		}
	}
	return func(v records.FleetView) int { return now.roomFor(q, v) }, nil
}

// roomFor returns how many instances of a request may still be requested,
// according to a later view.
func (s planInput) roomFor(q Request, v records.FleetView) int {
	s.view, s.memory = v, readMemory(v.PolicyState)
	in := inputOf(v, s.rules, s.maxSize, s.memory, s.now)
	if q.Reason == reasonByHand {
		if v.Fleet.Spec.Quota == nil {
			return q.Count
		}
		n := len(in.Instances)
		return shareOf(s.now, v.Fleet, n, n+q.Count, v.QuotaShares) - n
	}
	d, _ := decideIn(s, in)
	n := min(q.Count, d.Figures.Required)
	if d.Figures.Allowed > 0 || v.Fleet.Spec.Quota != nil {
		n = min(n, d.Figures.Allowed-d.Figures.Instances)
	}
	return n
}

// decideIn evaluates the policy of a fleet with its share of the pool's demand,
// and the next part of its rollout.
func decideIn(s planInput, in scaling.Input) (scaling.Decision, scaling.Replacement) {
	p := newPool(s, in)
	in.Demand = p.shares[p.self]
	decide := func() scaling.Decision {
		if s.view.Fleet.Spec.Quota != nil {
			n := shareOf(s.now, s.view.Fleet, len(in.Instances), scaling.Decide(in).Figures.Target, p.sharing[p.self])
			in.Quota = &n
		}
		return scaling.Decide(in)
	}
	d := decide()
	if !slices.ContainsFunc(in.Instances, func(i scaling.Instance) bool { return i.Outdated }) || rolloutStopped(s.view.Fleet, in.Failures) {
		return d, scaling.Replacement{}
	}
	r := replace(s.view.Fleet, in, d)
	in = withReplacement(in, r)
	in.Quota = nil
	return decide(), r
}
