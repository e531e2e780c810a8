package simulate

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/run"
)

// Setting is the rules of a fleet, with a name for the table.
type Setting struct {
	Name  string
	Rules *scaling.Rules
}

// Options configure the simulated cloud.
type Options struct {
	Boot         time.Duration // from the request to ready; each instance takes up to a quarter more
	Shutdown     time.Duration // from the end of the drain to gone
	PricePerHour float64       // of an instance
	Seed         uint64
}

// Result is the result of a replay.
type Result struct {
	Name         string   `json:"name"`
	Tasks        int      `json:"tasks"`
	Waits        Waits    `json:"wait"`
	MachineHours float64  `json:"machine_hours"`
	IdleHours    float64  `json:"idle_machine_hours"` // ready, and without a task
	Cost         float64  `json:"cost"`
	Peak         int      `json:"peak_machines"`
	Machines     int      `json:"machines"` // in total
	Samples      []Sample `json:"samples"`  // averages over equal spans of time
}

// Waits is how long tasks waited for a slot.
type Waits struct {
	Mean run.Duration `json:"mean"`
	P50  run.Duration `json:"p50"`
	P95  run.Duration `json:"p95"`
	Max  run.Duration `json:"max"`
}

// Sample is the averages over a span of time.
type Sample struct {
	At      time.Time `json:"at"`
	Busy    float64   `json:"busy"`    // machines with a task
	Idle    float64   `json:"idle"`    // ready machines without a task
	Other   float64   `json:"other"`   // machines that start or stop
	Waiting float64   `json:"waiting"` // tasks
}

// maxEvents bounds a simulation: a task has three or four events.
const maxEvents = 20 * MaxTasks

// Run replays a trace, in the order of its times. It covers whole days of UTC,
// and the time until the last task ends. It fails if no machine can become
// ready before the request timeout, or if ctx ends.
func Run(ctx context.Context, trace []Arrival, s Setting, o Options) (Result, error) {
	const day = 24 * time.Hour
	if limit := s.Rules.Limits().RequestTimeout; o.Boot+o.Boot/4 >= limit {
		return Result{}, run.Errorf(run.CodeInvalid, "machines take up to %s to be ready, but requests expire after a request_timeout of %s", o.Boot+o.Boot/4, limit)
	}
	start := trace[0].At.Truncate(day)
	w := &simulation{
		trace: trace, options: o, limits: s.Rules.Limits(), rules: s.Rules, now: start,
		machines: make(map[string]*machine), chance: rand.New(rand.NewPCG(o.Seed, 0)),
		meter: newMeter(start, trace[len(trace)-1].At.Truncate(day).Add(day)),
	}
	if err := w.run(ctx); err != nil {
		return Result{}, err
	}
	return w.result(s.Name), nil
}

func (w *simulation) result(name string) Result {
	r := Result{Name: name, Tasks: len(w.trace), Waits: waits(w.waited), Peak: w.meter.peak, Machines: w.made, Samples: w.meter.samples()}
	r.MachineHours, r.IdleHours = w.meter.total.machines.Hours(), w.meter.total.idle.Hours()
	r.Cost = r.MachineHours * w.options.PricePerHour
	return r
}
