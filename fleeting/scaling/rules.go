package scaling

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/drover-run/drover/run"
)

// Defaults and limits of the settings.
const (
	DefaultHoldDown       = time.Minute      // longer than most gaps between the tasks of one run
	DefaultRequestTimeout = 15 * time.Minute // the default of GitLab's taskscaler
	DefaultThrottle       = 100              // instances per second, likewise
	MaxInstances          = 100_000          // of a fleet; a larger number is a typing error
	MaxCapacity           = 10_000           // concurrent tasks on one instance
	MaxPolicies           = 100
	MaxPeriods            = 100    // of a policy
	MaxFactor             = 1000.0 // free slots for each task
	MaxWeight             = 1e9
)

// Limits are the settings that apply at all times.
type Limits struct {
	Capacity       int           `json:"capacity"`      // slots of an instance, at least 1
	MaxUse         int           `json:"max_use"`       // tasks in the life of an instance; 0: no limit
	MaxInstances   int           `json:"max_instances"` // 0: no limit
	ThrottleEvery  time.Duration `json:"throttle_every"`
	ThrottleBurst  int           `json:"throttle_burst"` // 0: no throttle
	HoldDown       time.Duration `json:"hold_down"`
	RequestTimeout time.Duration `json:"request_timeout"`
	Weight         Weight        `json:"weight"` // of an instance; 0: computed from its memory
}

// Terms are the settings that apply at a certain time.
type Terms struct {
	Policy      int           `json:"policy"` // index of the active policy; -1: none
	IdleCount   int           `json:"idle_count"`
	IdleTime    time.Duration `json:"idle_time"`
	FactorMilli int           `json:"factor_milli"` // thousandths
	FactorLimit int           `json:"factor_limit"` // 0: none
	Preemptive  bool          `json:"preemptive"`   // waiting tasks request no instances
	Upcoming    bool          `json:"upcoming"`     // tasks that are about to be ready request some
}

// Rules are valid settings. They do not change.
type Rules struct {
	limits   Limits
	policies []policy
}

type policy struct {
	periods []Period // none: always
	zone    *time.Location
	terms   Terms
}

// Compile turns settings into rules, or returns all faults of the settings.
func Compile(s run.Scaling) (*Rules, []run.Fault) {
	c := &compiler{}
	r := &Rules{limits: c.limits(s)}
	if len(s.Policy) > MaxPolicies {
		c.fault("policy", run.FaultOverLimit, "there are %d policies; the limit is %d", len(s.Policy), MaxPolicies)
	} else {
		for i, p := range s.Policy {
			r.policies = append(r.policies, c.policy(run.Path("policy").Index(i), i, p))
		}
	}
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return r, nil
}

// Limits returns the settings that apply at all times.
func (r *Rules) Limits() Limits { return r.limits }

// At returns the settings that apply at a time. The result depends on the time
// zone database of this machine: a workflow records it.
func (r *Rules) At(now time.Time) Terms {
	for _, p := range slices.Backward(r.policies) {
		if p.contains(now) {
			return p.terms
		}
	}
	return Terms{Policy: -1}
}

// Next returns the first minute after now with different terms. If there is
// none within a day, it returns the time one day from now.
func (r *Rules) Next(now time.Time) time.Time {
	const horizon = 24 * time.Hour
	end := now.Add(horizon)
	held := r.At(now).Policy
	// All zones have offsets of whole minutes: the last exception ended in
	// 1972.
	for t := now.Truncate(time.Minute).Add(time.Minute); t.Before(end); t = t.Add(time.Minute) {
		if r.At(t).Policy != held {
			return t
		}
	}
	return end
}

func (p policy) contains(now time.Time) bool {
	if len(p.periods) == 0 {
		return true
	}
	local := now.In(p.zone)
	for _, period := range p.periods {
		if period.Contains(local) {
			return true
		}
	}
	return false
}

// compiler collects faults.
type compiler struct{ faults []run.Fault }

func (c *compiler) fault(path run.Path, code run.Code, format string, args ...any) {
	if len(c.faults) < run.MaxFaults {
		c.faults = append(c.faults, run.Fault{Path: string(path), Code: code, Detail: fmt.Sprintf(format, args...)})
	}
}

// between adds a fault unless v is from 0 to most.
func (c *compiler) between(path run.Path, v, maximum int) {
	if v < 0 || v > maximum {
		c.fault(path, run.FaultOutOfRange, "%d is not from 0 to %d", v, maximum)
	}
}

// number adds a fault unless v is from least to most.
func (c *compiler) number(path run.Path, v, minimum, maximum float64) {
	if math.IsNaN(v) || v < minimum || v > maximum {
		c.fault(path, run.FaultOutOfRange, "%g is not from %g to %g", v, minimum, maximum)
	}
}

func (c *compiler) duration(path run.Path, d run.Duration) {
	const maximum = 365 * 24 * time.Hour
	if d < 0 || d.Std() > maximum {
		c.fault(path, run.FaultOutOfRange, "%s is not from 0s to %s", d.Std(), maximum)
	}
}

func (c *compiler) limits(s run.Scaling) Limits {
	c.between("capacity_per_instance", s.CapacityPerInstance, MaxCapacity)
	c.between("max_use_count", s.MaxUseCount, math.MaxInt32)
	c.between("max_instances", s.MaxInstances, MaxInstances)
	c.duration("request_timeout", s.RequestTimeout)
	l := Limits{
		Capacity: max(1, s.CapacityPerInstance), MaxUse: s.MaxUseCount, MaxInstances: s.MaxInstances,
		HoldDown: DefaultHoldDown, RequestTimeout: s.RequestTimeout.Std(),
	}
	if s.RequestTimeout == 0 {
		l.RequestTimeout = DefaultRequestTimeout
	}
	if s.HoldDown != nil {
		c.duration("hold_down", *s.HoldDown)
		l.HoldDown = s.HoldDown.Std()
	}
	if s.Weight != nil {
		c.number("weight", *s.Weight, 0.001, MaxWeight)
		l.Weight = weightOf(*s.Weight)
	}
	c.throttle(&l, s)
	return l
}

func (c *compiler) throttle(l *Limits, s run.Scaling) {
	given := run.ScaleThrottle{}
	if s.ScaleThrottle != nil {
		given = *s.ScaleThrottle
	}
	path := run.Path("scale_throttle")
	c.between(path.Key("burst"), given.Burst, MaxInstances)
	if given.Limit == -1 {
		return
	}
	rate := given.Limit
	if rate == 0 {
		rate = DefaultThrottle
	}
	const slowest, fastest = 1e-4, 1e6
	if math.IsNaN(rate) || rate < slowest || rate > fastest {
		c.fault(path.Key("limit"), run.FaultOutOfRange, "%g is not -1 for no limit, 0 for %d, or from %g to %g",
			given.Limit, DefaultThrottle, slowest, fastest)
		return
	}
	l.ThrottleEvery = time.Duration(math.Round(float64(time.Second) / rate))
	l.ThrottleBurst = given.Burst
	if given.Burst == 0 {
		l.ThrottleBurst = s.MaxInstances
	}
	if l.ThrottleBurst == 0 { // the plugin's limit applies, which is not known here
		l.ThrottleBurst = MaxInstances
	}
}

func (c *compiler) policy(path run.Path, index int, p run.ScalingPolicy) policy {
	made := policy{zone: c.zone(path.Key("timezone"), p.Timezone)}
	if len(p.Periods) > MaxPeriods {
		c.fault(path.Key("periods"), run.FaultOverLimit, "there are %d periods; the limit is %d", len(p.Periods), MaxPeriods)
		return made
	}
	for i, text := range p.Periods {
		period, err := ParsePeriod(text)
		if err != nil {
			c.fault(path.Key("periods").Index(i), run.FaultBadFormat, "not a cron expression: %s", err)
		}
		made.periods = append(made.periods, period)
	}
	c.between(path.Key("idle_count"), p.IdleCount, MaxInstances)
	c.duration(path.Key("idle_time"), p.IdleTime)
	c.number(path.Key("scale_factor"), p.ScaleFactor, 0, MaxFactor)
	c.between(path.Key("scale_factor_limit"), p.ScaleFactorLimit, MaxInstances)
	if p.ScaleFactorLimit > 0 && p.ScaleFactorLimit < p.IdleCount {
		c.fault(path.Key("scale_factor_limit"), run.FaultContradiction, "%d is less than the %d of idle_count", p.ScaleFactorLimit, p.IdleCount)
	}
	if p.ScaleFactorLimit > 0 && p.ScaleFactor == 0 {
		c.fault(path.Key("scale_factor_limit"), run.FaultContradiction, "it limits scale_factor, which is not set")
	}
	made.terms = Terms{
		Policy: index, IdleCount: p.IdleCount, IdleTime: p.IdleTime.Std(),
		FactorMilli: int(math.Round(min(p.ScaleFactor, MaxFactor) * 1000)), FactorLimit: p.ScaleFactorLimit,
		Preemptive: p.IdleCount > 0 && (p.PreemptiveMode == nil || *p.PreemptiveMode), Upcoming: p.UpcomingTasks,
	}
	if made.terms.Preemptive && p.UpcomingTasks {
		c.fault(path.Key("upcoming_tasks"), run.FaultContradiction, "in preemptive mode, tasks request no instances: set preemptive_mode to false")
	}
	return made
}

func (c *compiler) zone(path run.Path, name string) *time.Location {
	if name == "Local" { // depends on the machine
		c.fault(path, run.FaultBadValue, "name a time zone, such as Europe/Berlin")
		return time.UTC
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		c.fault(path, run.FaultBadValue, "there is no time zone %.60q", name)
		return time.UTC
	}
	return zone
}
