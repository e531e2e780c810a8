package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Reasons that do not come from the policy.
const (
	reasonBootstrap = "bootstrap_failed"
	reasonVanished  = "vanished"
	reasonByHand    = "by_hand"
	reasonRefused   = "refused"
	reasonUnknown   = "unknown"
	reasonUnlisted  = "unlisted"
)

// maxBootstraps bounds the concurrent bootstraps. A fleet worker does not run
// many more activities at a time, and must keep a slot for Watch.
const maxBootstraps = 40

// maxOrders bounds the orders of one plan, because a workflow history holds
// them.
const maxOrders = 200

// Order is one change of a ledger row, and its reason.
type Order struct {
	Number  int
	Reason  string
	Message string
}

// Request requests instances.
type Request struct {
	Count   int
	Reason  string
	Message string
}

// Plan lists the changes to make. The zero value has none.
type Plan struct {
	Request   Request // none if Count is 0
	GiveUp    []Order // requests without a known machine
	Drain     []Order
	Delete    []Order
	Lost      []Order // machines that are gone
	Bootstrap []Order
	// End reports that the fleet was deleted and has no instances left.
	End bool
}

// Empty reports whether the plan has no changes.
func (p Plan) Empty() bool {
	return p.Request.Count == 0 && len(p.GiveUp)+len(p.Drain)+len(p.Delete)+len(p.Lost)+len(p.Bootstrap) == 0 && !p.End
}

// changes reports whether the plan creates or deletes machines.
func (p Plan) changes() bool { return p.Request.Count > 0 || len(p.Delete) > 0 }

func (p Plan) full() bool {
	return len(p.GiveUp)+len(p.Drain)+len(p.Delete)+len(p.Lost)+len(p.Bootstrap) >= maxOrders
}

// planInput holds all inputs of a plan.
type planInput struct {
	now   time.Time
	view  records.FleetView
	rules *scaling.Rules
	// maxSize is the limit of the plugin, 0 for none.
	maxSize int
	memory  memory
	// upcoming is the number of tasks that are ready soon.
	upcoming int
	// bootstrapping holds the rows whose bootstrap runs.
	bootstrapping map[int]bool
	// trusted reports that the ledger matches a current listing. Without that,
	// the plan requests and removes nothing.
	trusted bool
	// changing reports that a step creates or deletes machines meanwhile. Only
	// one such step runs at a time. Its requests are not given up before it
	// ends.
	changing bool
}

// planResult is a plan with the data that it was made from.
type planResult struct {
	Plan
	decision    scaling.Decision
	replacement scaling.Replacement
	memory      memory
	limits      scaling.Limits
}

// plan returns the changes to make.
func plan(s planInput) planResult {
	s.memory.observeRevision(s.view.Fleet)
	p := &planner{s: s, rows: rowsOf(s.view)}
	// An empty listing does not prove that all instances are gone.
	p.listedNone = listedNone(p.rows)
	p.s.trusted = p.s.trusted && !p.listedNone
	p.in = inputOf(s.view, s.rules, s.maxSize, s.memory, s.now)
	p.out.memory, p.out.limits = s.memory, p.in.Limits
	p.out.memory.Failures = p.in.Failures
	if p.in.Failures == 0 { // an instance became ready after the failures
		p.out.memory.LastWhy, p.out.memory.Refusals, p.out.memory.Refusal = "", 0, ""
	}
	p.s.memory = p.out.memory
	p.continueChanges()
	switch s.view.Fleet.Mode {
	case run.FleetDraining, run.FleetDeleting:
		p.drainAll()
	case run.FleetPaused:
		p.decide()
		p.out.Request = Request{}
	default:
		p.decide()
		p.scale()
	}
	p.completeRollout()
	if p.out.Request.Count == 0 { // a request that is not made uses no tokens of the throttle
		p.out.memory.Scaling.Throttle = s.memory.Scaling.Throttle
	}
	return p.out
}

type planner struct {
	s          planInput
	rows       []row
	listedNone bool
	in         scaling.Input // without demand and quota
	out        planResult
}

// lost reports whether a machine is certainly gone.
func (p *planner) lost(r row) bool {
	return r.lost() && (!p.listedNone || p.s.now.Sub(r.MissingFrom) >= emptyConfirm)
}

func (p *planner) order(to *[]Order, r row, reason, why string) {
	if !p.out.full() {
		*to = append(*to, Order{Number: r.Number, Reason: reason, Message: why})
	}
}

// continueChanges continues the changes that have begun, regardless of the desired
// state.
func (p *planner) continueChanges() {
	for _, r := range p.rows {
		switch {
		case p.lost(r):
			const why = "it vanished: the plugin no longer lists it"
			if r.ReadyAt.IsZero() && !r.terminating() {
				p.out.memory.recordFailure(p.s.now, r.RequestedAt, why)
			}
			p.order(&p.out.Lost, r, reasonVanished, why)
		case r.State == run.InstanceBootstrapping && r.Reason == reasonBootstrap:
			p.out.memory.recordFailure(p.s.now, r.RequestedAt, r.Message)
			p.order(&p.out.Drain, r, reasonBootstrap, r.Message)
		case r.State == run.InstanceBootstrapping && p.s.view.Fleet.Spec.BootstrapMethod() != run.BootstrapAgent && !p.s.bootstrapping[r.Number]:
			if len(p.s.bootstrapping)+len(p.out.Bootstrap) < maxBootstraps {
				p.order(&p.out.Bootstrap, r, "", "")
			}
		case r.State == run.InstanceDraining:
			p.draining(r)
		case r.State == run.InstanceDeleting && p.s.now.Sub(r.DeletingAt) >= p.s.view.Fleet.Spec.DeletionRetry():
			p.delete(r)
		}
	}
}

func (p *planner) delete(r row) {
	if !p.s.changing {
		p.order(&p.out.Delete, r, r.Reason, r.Message)
	}
}

// requestInFlight reports whether the plugin is being called to create the instance.
func (p *planner) requestInFlight(r row) bool {
	return p.s.changing && r.State == run.InstanceRequested && !r.Acknowledged
}

// draining deletes an instance that has drained, or whose executor cannot
// acknowledge the drain.
func (p *planner) draining(r row) {
	for _, e := range r.executors {
		if e.State == run.ExecutorOnline { // it registered after the drain began
			p.order(&p.out.Drain, r, r.Reason, r.Message)
			return
		}
	}
	if r.drained() || p.overdue(r) {
		p.delete(r)
	}
}

// overdue reports whether a drain has exceeded its limit and the tasks of the
// instance cannot be confirmed to be running.
func (p *planner) overdue(r row) bool {
	return overdue(r, p.s.now, p.s.view.Fleet.Spec)
}

func overdue(r row, now time.Time, s run.FleetSpec) bool {
	return r.State == run.InstanceDraining && now.Sub(r.DrainingAt) >= s.DrainLimit() && (!r.inContact() || r.Failures >= s.Failures())
}

// drainAll drains all instances.
func (p *planner) drainAll() {
	why := "the fleet is drained"
	if p.s.view.Fleet.Mode == run.FleetDeleting {
		why = "the fleet is deleted"
	}
	left := 0
	for _, r := range p.rows {
		if r.State != run.InstanceIgnored {
			left++
		}
		switch {
		case r.terminating() || r.State == run.InstanceIgnored || p.lost(r) || r.Reason == reasonBootstrap:
		case r.State == run.InstanceRequested:
			p.giveUpRequest(r, why)
		default:
			p.order(&p.out.Drain, r, reasonByHand, why)
		}
	}
	p.out.End = left == 0 && p.s.view.Fleet.Mode == run.FleetDeleting && p.s.trusted && !p.s.changing
	p.out.memory.Scaling = scaling.Memory{}
}

// giveUpRequest gives up a request of a fleet that is drained or deleted. A machine
// that the plugin promised may still appear, and must not be left behind.
func (p *planner) giveUpRequest(r row, why string) {
	timeout := p.out.limits.RequestTimeout
	if !r.Acknowledged {
		timeout = settleTimeout
	}
	if p.s.trusted && !p.requestInFlight(r) && p.s.now.Sub(r.RequestedAt) >= timeout {
		p.order(&p.out.GiveUp, r, reasonByHand, why)
	}
}

// decide evaluates the policy.
func (p *planner) decide() {
	p.out.decision, p.out.replacement = decideIn(p.s, p.in)
	p.out.memory.Scaling = p.out.decision.Memory
}

// shareOf returns how many instances of its quota a fleet may have. It weighs
// the current and desired instances of all fleets of the quota. A fleet without
// a worker keeps its instances, but gets no capacity for more.
func shareOf(now time.Time, f run.Fleet, instances, desired int, sharing []records.QuotaShare) int {
	claims := []scaling.Claim{{Fleet: f.Name, Weight: weightOf(f.Spec), Instances: instances, Desired: desired}}
	for _, other := range sharing {
		if now.Sub(other.SeenAt) > quotaTimeout {
			other.Target = min(other.Target, other.Instances)
		}
		claims = append(claims, scaling.Claim{Fleet: other.Fleet, Weight: weightOf(other.Spec), Instances: other.Instances, Desired: other.Target})
	}
	return scaling.Allot(scaling.Weight(f.Spec.Quota.Limit*1000), claims)[0]
}

// weightOf returns the weight of one instance in a quota.
func weightOf(s run.FleetSpec) scaling.Weight {
	if s.Weight != nil {
		return scaling.Weight(*s.Weight * 1000)
	}
	const gib = 1 << 30
	if memory, err := run.ParseMemory(s.Memory); err == nil && memory > 0 {
		return scaling.WeightOfMemory(memory)
	}
	return scaling.WeightOfMemory(gib)
}

// scale applies the decision of the policy, or the number that an operator set.
func (p *planner) scale() {
	if !p.s.trusted {
		return
	}
	byHand := p.s.view.Fleet.Desired != nil
	rows := map[string]row{}
	for _, r := range p.rows {
		rows[strconv.Itoa(r.Number)] = r
	}
	gone := map[int]bool{} // rows that the policy removes for their own state
	for _, a := range p.out.decision.Actions {
		r := rows[a.ID]
		switch {
		case a.Kind == scaling.Request:
			if !byHand && !p.s.changing {
				p.out.Request = Request{Count: a.Count, Reason: string(a.Reason), Message: a.Message}
			}
		case r.Misses > 0 || r.Reason == reasonBootstrap: // the cause is not known yet
		case byHand && (a.Reason == scaling.ReasonIdle || a.Reason == scaling.ReasonOverLimit):
		case p.requestInFlight(r):
		case a.Kind == scaling.GiveUp && r.Instance == "":
			gone[r.Number] = true
			p.out.memory.recordFailure(p.s.now, r.RequestedAt, a.Message)
			p.order(&p.out.GiveUp, r, string(a.Reason), a.Message)
		default:
			gone[r.Number] = true
			if a.Kind == scaling.GiveUp {
				p.out.memory.recordFailure(p.s.now, r.RequestedAt, a.Message)
			}
			if ill := r.unhealthy(p.s.now, p.s.view.Fleet.Spec.Failures()); ill != "" && a.Reason == scaling.ReasonUnhealthy {
				a.Message = ill
			}
			p.order(&p.out.Drain, r, string(a.Reason), a.Message)
		}
	}
	p.rollOut(rows, gone)
	if p.out.memory.Failures > p.s.memory.Failures { // the pause after a failure comes first
		p.out.Request = Request{}
		return
	}
	if byHand {
		p.byHand(*p.s.view.Fleet.Desired, gone)
	}
}

// byHand brings the fleet to the number that an operator set. Instances with
// tasks stay until they have none.
func (p *planner) byHand(desired int, gone map[int]bool) {
	why := fmt.Sprintf("an operator set %d instances", desired)
	if maximum := p.out.limits.MaxInstances; maximum > 0 {
		desired = min(desired, maximum)
	}
	var staying []row
	total, leaving := 0, 0 // leaving still execute tasks
	for _, r := range p.rows {
		if r.State == run.InstanceIgnored {
			continue
		}
		total++
		switch {
		case !r.terminating() && !gone[r.Number] && !p.lost(r):
			staying = append(staying, r)
		case r.busy() > 0:
			leaving++
		}
	}
	// For tasks without a slot, the room of a rollout is not the bound, but the number
	// of instances that execute tasks, or may.
	forTasks := desired - len(staying) - leaving
	desired += p.out.replacement.Surge
	if missing := desired - len(staying); missing > 0 {
		if room := p.out.replacement.Room; room != nil {
			missing = min(missing, max(*room, min(forTasks, *cmp.Or(p.out.decision.Room, room))))
		}
		if maximum := p.out.limits.MaxInstances; maximum > 0 {
			missing = min(missing, maximum-total)
		}
		if p.s.view.Fleet.Spec.Quota != nil {
			missing = min(missing, shareOf(p.s.now, p.s.view.Fleet, total, total+missing, p.s.view.QuotaShares)-total)
		}
		if missing > 0 && !p.s.changing && !p.s.now.Before(p.s.memory.FailedAt.Add(scaling.PauseAfter(p.s.memory.Failures))) {
			p.out.Request = Request{Count: missing, Reason: reasonByHand, Message: why}
		}
		return
	}
	p.drainSurplus(staying, desired, why)
}

// drainSurplus drains the instances beyond the number that an operator set,
// first those that are not ready. Only ready instances replace ready ones: a
// starting instance, or a request without a machine, may never be ready.
func (p *planner) drainSurplus(staying []row, desired int, why string) {
	slices.SortStableFunc(staying, func(a, b row) int { // those of earlier revisions first
		return cmp.Compare(b.outdatedBy(p.s.view.Fleet), a.outdatedBy(p.s.view.Fleet))
	})
	surplus, serving := len(staying)-desired, 0
	for _, r := range staying {
		if r.State == run.InstanceReady && r.Misses == 0 {
			serving++
		}
	}
	for _, ready := range []bool{false, true} {
		if ready {
			surplus = min(surplus, serving-desired)
		}
		for _, r := range staying {
			if surplus <= 0 {
				return
			}
			if (r.State == run.InstanceReady) != ready || r.busy() > 0 || r.Instance == "" || r.Misses > 0 {
				continue
			}
			surplus--
			p.order(&p.out.Drain, r, reasonByHand, why)
		}
	}
}
