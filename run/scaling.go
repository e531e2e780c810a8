package run

// Scaling says how many machines a fleet has, and when. The words are those of
// the known scaler of instance groups; what they mean is in
// docs/fleets-simulator.md. Package fleeting/scaling validates it.
type Scaling struct {
	CapacityPerInstance int `json:"capacity_per_instance,omitempty"` // tasks at once on one; 0 means 1
	MaxUseCount         int `json:"max_use_count,omitempty"`         // tasks that one takes in its life; 0: no limit
	MaxInstances        int `json:"max_instances,omitempty"`         // whatever state they are in; 0: what the plugin allows
	// Weight is what an instance takes of a quota that fleets share. nil means
	// that of its memory.
	Weight        *float64       `json:"weight,omitempty"`
	ScaleThrottle *ScaleThrottle `json:"scale_throttle,omitempty"`
	// HoldDown is how long less must have been enough before an instance goes;
	// nil means a minute.
	HoldDown *Duration `json:"hold_down,omitempty"`
	// RequestTimeout is how long an instance may take from being asked for to
	// being ready; 0 means 15 minutes.
	RequestTimeout Duration `json:"request_timeout,omitempty"`
	// Policy has settings for certain times; of those that match the last one
	// holds. Where none does, an instance comes when a task waits.
	Policy []ScalingPolicy `json:"policy,omitempty"`
}

// ScaleThrottle bounds how fast instances are asked for: a token bucket.
type ScaleThrottle struct {
	Limit float64 `json:"limit,omitempty"` // instances a second; 0 means 100, -1 no limit
	Burst int     `json:"burst,omitempty"` // instances at once; 0 means max_instances
}

// ScalingPolicy is the settings of certain times.
type ScalingPolicy struct {
	Periods  []string `json:"periods,omitempty"`  // cron expressions that name minutes, not instants; none: always
	Timezone string   `json:"timezone,omitempty"` // of the periods; "" means UTC
	// IdleCount is how many slots are kept free.
	IdleCount int `json:"idle_count,omitempty"`
	// IdleTime is how long an instance must have been idle before it goes.
	IdleTime Duration `json:"idle_time,omitempty"`
	// ScaleFactor keeps that share of the tasks as further free slots:
	// IdleCount is the least, ScaleFactorLimit, unless it is 0, the most.
	ScaleFactor      float64 `json:"scale_factor,omitempty"`
	ScaleFactorLimit int     `json:"scale_factor_limit,omitempty"`
	// PreemptiveMode makes instances for tasks that are about to be ready;
	// without it, one comes only when a task waits. nil means that it is on
	// where IdleCount is not 0.
	PreemptiveMode *bool `json:"preemptive_mode,omitempty"`
}
