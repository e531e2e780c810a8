package scaling_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting/scaling"
)

var noon = time.Date(2026, 3, 17, 12, 0, 0, 0, time.UTC)

// ready returns an instance that has been idle for ten minutes.
func ready(id string) scaling.Instance {
	return scaling.Instance{ID: id, State: scaling.StateReady, RequestedAt: noon.Add(-time.Hour), IdleSince: noon.Add(-10 * time.Minute)}
}

// summary returns the actions of a decision in short form.
func summary(d scaling.Decision) []string {
	var out []string
	for _, a := range d.Actions {
		what := a.ID
		if a.Kind == scaling.Request {
			what = fmt.Sprint(a.Count)
		}
		out = append(out, fmt.Sprintf("%s %s: %s", a.Kind, what, a.Reason))
	}
	return out
}

func TestDecide(t *testing.T) {
	t.Parallel()
	busy, used, unhealthy, late := ready("busy"), ready("used"), ready("sick"), ready("late")
	busy.Busy, busy.Used = 1, 1
	used.Used = 3
	unhealthy.Unhealthy = true
	late.State = scaling.StateCreating
	unhealthyBusy, draining := busy, busy
	unhealthyBusy.Unhealthy = true
	draining.State = scaling.StateDraining
	young := ready("young")
	young.IdleSince = noon.Add(-time.Minute)
	coming := scaling.Instance{ID: "coming", State: scaling.StateRequested, RequestedAt: noon.Add(-time.Minute)}
	outdated := ready("old")
	outdated.Outdated = true
	limits := scaling.Limits{Capacity: 2, MaxInstances: 4, RequestTimeout: 15 * time.Minute}
	one := 1
	tests := []struct {
		name   string
		in     scaling.Input
		want   []string
		held   scaling.Reason
		nextAt time.Time
		change func(*scaling.Limits)
	}{
		{name: "nothing to do at zero"},
		{name: "from zero when a task waits", in: scaling.Input{Demand: scaling.Demand{Queued: 3}}, want: []string{"request 2: demand"}},
		{name: "upcoming tasks need no instances by default", in: scaling.Input{Demand: scaling.Demand{Upcoming: 3}}},
		{name: "in preemptive mode, waiting tasks request none", in: scaling.Input{Demand: scaling.Demand{Queued: 9}, Terms: scaling.Terms{Preemptive: true}}, held: scaling.ReasonPreemptive},
		{
			name: "but idle slots are kept", held: scaling.ReasonPreemptive, want: []string{"request 1: idle_count"},
			in: scaling.Input{Demand: scaling.Demand{Queued: 9}, Terms: scaling.Terms{Preemptive: true, IdleCount: 2}},
		},
		{
			name: "which waiting tasks take", in: scaling.Input{
				Demand: scaling.Demand{Queued: 2}, Terms: scaling.Terms{Preemptive: true, IdleCount: 2}, Instances: []scaling.Instance{young},
			},
		},
		{
			name: "and which are replaced then", want: []string{"request 1: idle_count"},
			in: scaling.Input{Terms: scaling.Terms{Preemptive: true, IdleCount: 2}, Instances: []scaling.Instance{busy}},
		},
		{
			name: "unless they are to count",
			in:   scaling.Input{Demand: scaling.Demand{Upcoming: 3}, Terms: scaling.Terms{Upcoming: true}}, want: []string{"request 2: demand"},
		},
		{name: "idle count is slots", in: scaling.Input{Terms: scaling.Terms{IdleCount: 3}}, want: []string{"request 2: idle_count"}},
		{
			name: "requested instances count", nextAt: noon.Add(14 * time.Minute),
			in: scaling.Input{Demand: scaling.Demand{Queued: 2}, Instances: []scaling.Instance{coming}},
		},
		{name: "never above the limit", in: scaling.Input{Demand: scaling.Demand{Queued: 100}, Instances: []scaling.Instance{busy}}, want: []string{"request 3: demand"}, held: scaling.ReasonMaxInstances},
		{name: "instances that are being removed count toward the limit", in: scaling.Input{Demand: scaling.Demand{Queued: 100}, Instances: []scaling.Instance{draining}}, want: []string{"request 3: demand"}, held: scaling.ReasonMaxInstances},
		{name: "the quota limits too", in: scaling.Input{Demand: scaling.Demand{Queued: 100}, Quota: &one}, want: []string{"request 1: demand"}, held: scaling.ReasonQuota},
		{
			name: "a quota of zero", in: scaling.Input{Demand: scaling.Demand{Queued: 100}, Quota: new(int)}, held: scaling.ReasonQuota,
			change: func(l *scaling.Limits) { l.MaxInstances = 0 },
		},
		{
			name:   "the last slots of an instance are not counted twice",
			in:     scaling.Input{Demand: scaling.Demand{Queued: 2}, Instances: []scaling.Instance{{ID: "a", State: scaling.StateReady, Busy: 1, Used: 3}}},
			change: func(l *scaling.Limits) { l.MaxUse = 3 }, want: []string{"request 1: demand"},
		},
		{
			name: "an instance for a task replaces none, even during a rollout", want: []string{"request 1: demand"},
			in: scaling.Input{Demand: scaling.Demand{Queued: 2}, Surge: 1, Room: new(int), Instances: []scaling.Instance{draining}},
		},
		{name: "to zero", in: scaling.Input{Instances: []scaling.Instance{ready("a"), ready("b")}}, want: []string{"remove a: idle", "remove b: idle"}},
		{name: "a busy one stays", in: scaling.Input{Instances: []scaling.Instance{busy, ready("b")}}, want: []string{"remove b: idle"}},
		{name: "required instances stay", in: scaling.Input{Terms: scaling.Terms{IdleCount: 2}, Instances: []scaling.Instance{ready("a"), ready("b")}}, want: []string{"remove a: idle"}},
		{
			name: "a starting instance does not make a ready one surplus", nextAt: noon.Add(14 * time.Minute),
			in: scaling.Input{Terms: scaling.Terms{IdleCount: 2}, Instances: []scaling.Instance{outdated, coming}},
		},
		{
			name: "nor does it for a task that waits", nextAt: noon.Add(14 * time.Minute),
			in: scaling.Input{Demand: scaling.Demand{Queued: 1}, Instances: []scaling.Instance{ready("a"), coming}},
		},
		{
			name: "nor during the hold-down", nextAt: noon.Add(time.Minute),
			in: scaling.Input{
				Instances: []scaling.Instance{ready("a"), coming},
				Memory:    scaling.Memory{Peaks: []scaling.Peak{{At: noon.Add(-time.Hour), Slots: 2}}},
			},
			change: func(l *scaling.Limits) { l.HoldDown = time.Minute },
		},
		{
			name: "a ready one that is not needed goes before a starting one is ready", nextAt: noon.Add(14 * time.Minute),
			in: scaling.Input{Terms: scaling.Terms{IdleCount: 2}, Instances: []scaling.Instance{outdated, ready("b"), coming}}, want: []string{"remove old: idle"},
		},
		{
			name: "instances stay until their idle time ends", nextAt: noon.Add(4 * time.Minute),
			in: scaling.Input{Terms: scaling.Terms{IdleTime: 5 * time.Minute}, Instances: []scaling.Instance{young}},
		},
		{
			name: "fewer slots must have sufficed for the hold-down", nextAt: noon.Add(time.Minute),
			in: scaling.Input{
				Instances: []scaling.Instance{ready("a")},
				Memory:    scaling.Memory{Peaks: []scaling.Peak{{At: noon.Add(-time.Hour), Slots: 2}}},
			},
			change: func(l *scaling.Limits) { l.HoldDown = time.Minute },
		},
		{
			name: "exhausted and replaced", in: scaling.Input{Demand: scaling.Demand{Queued: 1}, Instances: []scaling.Instance{used}},
			change: func(l *scaling.Limits) { l.MaxUse = 3 }, want: []string{"remove used: exhausted", "request 1: demand"},
		},
		{name: "unhealthy and replaced", in: scaling.Input{Terms: scaling.Terms{IdleCount: 1}, Instances: []scaling.Instance{unhealthy}}, want: []string{"remove sick: unhealthy", "request 1: idle_count"}},
		{name: "unhealthy and busy", in: scaling.Input{Instances: []scaling.Instance{unhealthyBusy}}, want: []string{"drain busy: unhealthy"}},
		{name: "requests expire", in: scaling.Input{Demand: scaling.Demand{Queued: 1}, Instances: []scaling.Instance{late}}, want: []string{"give_up late: timeout", "request 1: demand"}},
		{
			name: "failures are followed by a pause", nextAt: noon.Add(19 * time.Second), held: scaling.ReasonBackoff,
			in: scaling.Input{Demand: scaling.Demand{Queued: 1}, Failures: 3, FailedAt: noon.Add(-time.Second)},
		},
		{
			name: "the pause ends", in: scaling.Input{Demand: scaling.Demand{Queued: 1}, Failures: 300, FailedAt: noon.Add(-5 * time.Minute)},
			want: []string{"request 1: demand"},
		},
		{
			name: "the throttle allows as many as it has tokens", nextAt: noon.Add(5 * time.Second), held: scaling.ReasonThrottle,
			in:     scaling.Input{Demand: scaling.Demand{Queued: 8}, Memory: scaling.Memory{Throttle: noon.Add(25 * time.Second)}},
			change: func(l *scaling.Limits) { l.ThrottleEvery, l.ThrottleBurst = 10*time.Second, 4 }, want: []string{"request 1: demand"},
		},
		{
			name: "a lowered limit first removes instances that are not ready",
			in:   scaling.Input{Terms: scaling.Terms{IdleCount: 100}, Instances: []scaling.Instance{ready("a"), ready("b"), ready("c"), coming, busy, busy}},
			want: []string{"remove coming: over_limit", "remove a: over_limit"}, held: scaling.ReasonMaxInstances, nextAt: noon.Add(14 * time.Minute),
		},
		{name: "the scale factor", in: scaling.Input{Demand: scaling.Demand{Queued: 3}, Terms: scaling.Terms{FactorMilli: 1100}}, want: []string{"request 4: demand"}},
		{name: "its limit", in: scaling.Input{Demand: scaling.Demand{Queued: 3}, Terms: scaling.Terms{FactorMilli: 1100, FactorLimit: 3}}, want: []string{"request 3: demand"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.in.Now, tt.in.Limits = noon, limits
			if tt.change != nil {
				tt.change(&tt.in.Limits)
			}
			d := scaling.Decide(tt.in)
			require.Empty(t, cmp.Diff(tt.want, summary(d)))
			require.Equal(t, tt.held, d.Held)
			require.Equal(t, tt.nextAt, d.NextAt)
			for _, a := range d.Actions {
				require.NotEmpty(t, a.Message)
			}
		})
	}
}

func TestPauseAfter(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: 5 * time.Second, 2: 10 * time.Second, 6: 160 * time.Second, 7: 5 * time.Minute, 8: 5 * time.Minute, 1_000_000: 5 * time.Minute,
	} {
		require.Equal(t, want, scaling.PauseAfter(failures), failures)
	}
}
