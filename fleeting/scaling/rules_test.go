package scaling_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

const officeHours = `
capacity_per_instance: 2
max_use_count: 50
max_instances: 20
weight: 2.5
hold_down: 0s
request_timeout: 5m
scale_throttle: {limit: 0.5, burst: 4}
policy:
  - {idle_time: 2m}
  - periods: ["* 8-17 * * mon-fri"]
    timezone: Europe/Berlin
    idle_count: 4
    idle_time: 20m
    scale_factor: 0.5
    scale_factor_limit: 10
  - {periods: ["* 12 * * *"], timezone: Europe/Berlin, idle_count: 1, preemptive_mode: false}
`

func compile(tb testing.TB, text string) *scaling.Rules {
	tb.Helper()
	s, err := spec.ReadScaling([]byte(text), spec.FormatYAML)
	require.NoError(tb, err)
	rules, faults := scaling.Compile(*s)
	require.Empty(tb, faults)
	return rules
}

func at(tb testing.TB, text string) time.Time {
	tb.Helper()
	t, err := time.Parse(time.RFC3339, text)
	require.NoError(tb, err)
	return t
}

func TestRules(t *testing.T) {
	t.Parallel()
	rules := compile(t, officeHours)
	require.Empty(t, cmp.Diff(scaling.Limits{
		Capacity: 2, MaxUse: 50, MaxInstances: 20, Weight: 2500, RequestTimeout: 5 * time.Minute, ThrottleEvery: 2 * time.Second, ThrottleBurst: 4,
	}, rules.Limits()))
	night := scaling.Terms{IdleTime: 2 * time.Minute}
	day := scaling.Terms{Policy: 1, IdleCount: 4, IdleTime: 20 * time.Minute, FactorMilli: 500, FactorLimit: 10, Preemptive: true}
	noon := scaling.Terms{Policy: 2, IdleCount: 1}
	require.Equal(t, night, rules.At(at(t, "2026-03-17T06:59:59Z")))
	require.Equal(t, day, rules.At(at(t, "2026-03-17T07:00:00Z")), "Berlin is an hour ahead of UTC")
	require.Equal(t, noon, rules.At(at(t, "2026-03-17T11:30:00Z")), "the last matching policy applies")
	require.Equal(t, day, rules.At(at(t, "2026-03-30T06:00:00Z")), "and two hours in summer")
	require.Equal(t, at(t, "2026-03-17T07:00:00Z"), rules.Next(at(t, "2026-03-17T00:10:05Z")))
	require.Equal(t, at(t, "2026-03-17T11:00:00Z"), rules.Next(at(t, "2026-03-17T07:00:00Z")))
	require.Equal(t, at(t, "2026-03-29T10:00:00Z"), rules.Next(at(t, "2026-03-28T20:00:00Z")), "noon of a Sunday, the first day of summer time")
}

func TestRules_defaults(t *testing.T) {
	t.Parallel()
	rules := compile(t, "max_instances: 7")
	require.Equal(t, scaling.Limits{
		Capacity: 1, MaxInstances: 7, HoldDown: time.Minute, RequestTimeout: 15 * time.Minute, ThrottleEvery: 10 * time.Millisecond, ThrottleBurst: 7,
	}, rules.Limits())
	now := at(t, "2026-03-17T07:00:00Z")
	require.Equal(t, scaling.Terms{Policy: -1}, rules.At(now))
	require.Equal(t, now.Add(24*time.Hour), rules.Next(now))
	require.Zero(t, compile(t, "scale_throttle: {limit: -1}").Limits().ThrottleBurst)
}

func TestCompile_reports_all_faults(t *testing.T) {
	t.Parallel()
	text := []byte(`capacity_per_instance: -1
max_instances: 1000000
weight: 0
hold_down: 9000h
scale_throttle: {limit: -2, burst: -1}
policy:
  - periods: ["* * * *", "* * * * *"]
    timezone: Mars/Olympus
    idle_count: -1
    idle_time: 9000h
  - idle_count: 5
    scale_factor: -0.5
    scale_factor_limit: 3
  - {timezone: Local, scale_factor_limit: 1}
`)
	s, err := spec.ReadScaling(text, spec.FormatYAML)
	require.NoError(t, err)
	_, faults := scaling.Compile(*s)
	faults = spec.LocateScaling(faults, text, spec.FormatYAML)
	type location struct {
		Path string
		Line int
		Code run.Code
	}
	var got []location
	for _, f := range faults {
		require.NotEmpty(t, f.Detail)
		got = append(got, location{f.Path, f.Line, f.Code})
	}
	require.Empty(t, cmp.Diff([]location{
		{"capacity_per_instance", 1, run.FaultOutOfRange},
		{"max_instances", 2, run.FaultOutOfRange},
		{"hold_down", 4, run.FaultOutOfRange},
		{"weight", 3, run.FaultOutOfRange},
		{"scale_throttle.burst", 5, run.FaultOutOfRange},
		{"scale_throttle.limit", 5, run.FaultOutOfRange},
		{"policy[0].timezone", 8, run.FaultBadValue},
		{"policy[0].periods[0]", 7, run.FaultBadFormat},
		{"policy[0].idle_count", 9, run.FaultOutOfRange},
		{"policy[0].idle_time", 10, run.FaultOutOfRange},
		{"policy[1].scale_factor", 12, run.FaultOutOfRange},
		{"policy[1].scale_factor_limit", 13, run.FaultContradiction},
		{"policy[2].timezone", 14, run.FaultBadValue},
		{"policy[2].scale_factor_limit", 14, run.FaultContradiction},
	}, got))
	_, faults = scaling.Compile(run.Scaling{Weight: new(math.NaN())})
	require.Len(t, faults, 1)
}

func TestReadScaling_refuses(t *testing.T) {
	t.Parallel()
	_, err := spec.ReadScaling([]byte("polcy: []\nweight: heavy\nmax_instances: 1.5\npolicy: [{idle_time: 5}]\nhold_down: -5s\n"), spec.FormatYAML)
	var coded *run.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, "the scaling settings have 5 faults", coded.Message)
	require.Contains(t, coded.Faults[0].Detail, `did you mean "policy"?`)
	_, err = spec.ReadScaling([]byte("[]"), spec.FormatYAML)
	require.Error(t, err)
}

// FuzzCompile checks that settings are either compiled, or rejected with paths,
// and that rules answer for every time.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{officeHours, "{}", "max_instances: 7", "policy: [{}]", "weight: 1e300", "scale_throttle: {limit: .5}", "policy: [{periods: ['* * * * *'], scale_factor: 1e-9}]"} {
		f.Add([]byte(text), int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, text []byte, unix int64) {
		s, err := spec.ReadScaling(text, spec.FormatYAML)
		if err != nil {
			return
		}
		rules, faults := scaling.Compile(*s)
		if len(faults) > 0 {
			require.Nil(t, rules)
			for _, fault := range faults {
				require.NotEmpty(t, fault.Path)
				require.NotEmpty(t, fault.Detail)
			}
			return
		}
		now := time.Unix(unix%(1<<33), 0)
		in := scaling.Input{Now: now, Limits: rules.Limits(), Terms: rules.At(now), Demand: scaling.Demand{Queued: 3}}
		d := scaling.Decide(in)
		require.Len(t, d.Actions, 1)
		require.Equal(t, scaling.Request, d.Actions[0].Kind)
		if maximum := rules.Limits().MaxInstances; maximum > 0 {
			require.LessOrEqual(t, d.Actions[0].Count, maximum)
		}
	})
}

func TestRules_preemptive_mode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{idle_count: 0}": false, "{idle_count: 1}": true, "{idle_count: 1, preemptive_mode: false}": false,
		"{idle_count: 1, preemptive_mode: true}": true, "{scale_factor: 1, preemptive_mode: true}": false, // no slot would ever be free
	} {
		require.Equal(t, want, compile(t, "policy: ["+text+"]").At(at(t, "2026-03-17T07:00:00Z")).Preemptive, text)
	}
	require.True(t, compile(t, "policy: [{idle_count: 1, preemptive_mode: false, upcoming_tasks: true}]").At(at(t, "2026-03-17T07:00:00Z")).Upcoming)
	s, err := spec.ReadScaling([]byte("policy: [{idle_count: 1, upcoming_tasks: true}]"), spec.FormatYAML)
	require.NoError(t, err)
	_, faults := scaling.Compile(*s)
	require.Len(t, faults, 1)
	require.Equal(t, "policy[0].upcoming_tasks", faults[0].Path)
	require.Equal(t, run.FaultContradiction, faults[0].Code)
}
