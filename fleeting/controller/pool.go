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
	demand := scaling.PoolDemand{Queued: s.view.Queued, Overdue: s.view.Overdue, Upcoming: s.upcoming, FreeSlots: s.view.FreeSlots}
	p.supplies(demand)
	p.shares = scaling.Divide(demand, p.supply)
	p.shares[p.self].Queued += s.view.Labelled
	return p
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

// supplies computes what each fleet has and may add. The fleets of a pool may
// share a quota: the earlier fleets take what they need for the remaining
// demand, and the later fleets leave that capacity to them.
func (p *pool) supplies(d scaling.PoolDemand) {
	left := d.Queued + d.Upcoming
	for _, m := range p.members {
		s := scaling.SupplyOf(m.input)
		s.Off = m.off
		left -= max(s.Ready, s.Free-s.Idle)
		p.supply = append(p.supply, s)
	}
	grants := make([]int, len(p.members))
	for i := range p.members {
		p.sharing = append(p.sharing, p.sharingOf(i, grants))
		if m := &p.members[i]; m.view.Fleet.Spec.Quota != nil {
			n := len(m.input.Instances)
			share := shareOf(m.input.Now, m.view.Fleet, n, n+instancesFor(left, p.supply[i]), p.sharing[i])
			m.input.Quota = &share
			p.supply[i] = scaling.SupplyOf(m.input)
			p.supply[i].Off = m.off
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
