package run

// Scaling configures the number of machines of a fleet. Its fields are named as
// in GitLab's taskscaler; docs/fleets-simulator.md defines them. Package
// fleeting/scaling validates it.
type Scaling struct {
	CapacityPerInstance int `json:"capacity_per_instance,omitempty"` // concurrent tasks of an instance; 0 means 1
	MaxUseCount         int `json:"max_use_count,omitempty"`         // tasks that an instance takes in its life; 0: no limit
	MaxInstances        int `json:"max_instances,omitempty"`         // in any state; 0: as many as the plugin allows
	// Weight is the share of an instance in a quota that fleets share. nil
	// derives it from the memory.
	Weight        *float64       `json:"weight,omitempty"`
	ScaleThrottle *ScaleThrottle `json:"scale_throttle,omitempty"`
	// HoldDown is how long fewer instances must have been enough before an
	// instance is removed; nil means a minute.
	HoldDown *Duration `json:"hold_down,omitempty"`
	// RequestTimeout is how long an instance may take from its request until it
	// is ready; 0 means 15 minutes.
	RequestTimeout Duration `json:"request_timeout,omitempty"`
	// Policy has settings for certain times; of the policies that match, the
	// last applies. If none matches, an instance is created when a task waits.
	Policy []ScalingPolicy `json:"policy,omitempty"`
}

// ScaleThrottle bounds how fast instances are requested: a token bucket.
type ScaleThrottle struct {
	Limit float64 `json:"limit,omitempty"` // instances a second; 0 means 100, -1 no limit
	Burst int     `json:"burst,omitempty"` // instances at once; 0 means max_instances
}

// ScalingPolicy has the settings for certain times.
type ScalingPolicy struct {
	Periods  []string `json:"periods,omitempty"`  // cron expressions that name minutes, not instants; none: always
	Timezone string   `json:"timezone,omitempty"` // of the periods; "" means UTC
	// IdleCount is how many slots are kept free.
	IdleCount int `json:"idle_count,omitempty"`
	// IdleTime is how long an instance must have been idle before it is
	// removed.
	IdleTime Duration `json:"idle_time,omitempty"`
	// ScaleFactor keeps that share of the tasks as additional free slots:
	// IdleCount is the minimum, ScaleFactorLimit, unless it is 0, the maximum.
	ScaleFactor      float64 `json:"scale_factor,omitempty"`
	ScaleFactorLimit int     `json:"scale_factor_limit,omitempty"`
	// PreemptiveMode creates instances for tasks that are about to be ready;
	// without it, an instance is created only when a task waits. nil means that
	// it is on if IdleCount is not 0.
	PreemptiveMode *bool `json:"preemptive_mode,omitempty"`
}
