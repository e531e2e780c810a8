package run_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/run"
)

func TestRetry_Delay(t *testing.T) {
	t.Parallel()
	second := run.Duration(time.Second)
	for name, tt := range map[string]struct {
		r    run.Retry
		want []time.Duration
	}{
		"none":            {run.Retry{}, []time.Duration{0, 0, 0}},
		"constant":        {run.Retry{Backoff: second}, []time.Duration{time.Second, time.Second, time.Second}},
		"growing":         {run.Retry{Backoff: second, BackoffFactor: 1.5}, []time.Duration{time.Second, 1500 * time.Millisecond, 2250 * time.Millisecond}},
		"limited":         {run.Retry{Backoff: second, BackoffFactor: 10, BackoffMax: 5 * second}, []time.Duration{time.Second, 5 * time.Second, 5 * time.Second}},
		"longer than max": {run.Retry{Backoff: 9 * second, BackoffMax: 5 * second}, []time.Duration{5 * time.Second, 5 * time.Second}},
		"no wait":         {run.Retry{BackoffFactor: 2, BackoffMax: second, BackoffJitter: 1}, []time.Duration{0, 0}},
	} {
		for i, want := range tt.want {
			require.Equal(t, want, tt.r.Delay(i+1, "seed"), "%s after attempt %d", name, i+1)
		}
	}
	require.Equal(t, 24*time.Hour, run.Retry{Backoff: second, BackoffFactor: 100}.Delay(99, ""))
	require.Equal(t, 300*time.Hour, run.Retry{Backoff: run.Duration(300 * time.Hour), BackoffFactor: 100}.Delay(99, ""))
}

func TestRetry_Delay_jitter(t *testing.T) {
	t.Parallel()
	r := run.Retry{Backoff: run.Duration(time.Minute), BackoffJitter: 0.5}
	first := r.Delay(1, "a/0")
	require.Equal(t, first, r.Delay(1, "a/0"), "a replay gets the same")
	var sum time.Duration
	seen := map[time.Duration]bool{}
	const n = 1000
	for i := range n {
		d := r.Delay(1+i%5, run.Key{Task: i}.String())
		require.GreaterOrEqual(t, d, 30*time.Second)
		require.LessOrEqual(t, d, time.Minute)
		sum += d
		seen[d] = true
	}
	require.InDelta(t, 45*time.Second, sum/n, float64(time.Second), "it is spread evenly")
	require.Greater(t, len(seen), 950)
}

func TestRetry_Delay_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := run.Retry{
			Backoff:       run.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "backoff")),
			BackoffFactor: rapid.Float64Range(1, 100).Draw(t, "factor"),
			BackoffMax:    run.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "max")),
		}
		attempt := rapid.IntRange(1, 99).Draw(t, "attempt")
		d, next := r.Delay(attempt, ""), r.Delay(attempt+1, "")
		require.GreaterOrEqual(t, next, d)
		require.GreaterOrEqual(t, d, time.Duration(0))
		if r.BackoffMax > 0 {
			require.LessOrEqual(t, next, r.BackoffMax.Std())
		}
		r.BackoffJitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		require.LessOrEqual(t, r.Delay(attempt, "x"), max(d, d.Round(time.Millisecond)))
		require.Equal(t, d > 0, r.Delay(attempt, "x") > 0)
	})
}

func TestRetry_Allows(t *testing.T) {
	t.Parallel()
	code := 75
	for _, tt := range []struct {
		r     run.Retry
		cause run.Cause
		want  bool
	}{
		{run.Retry{}, run.CauseStep, true},
		{run.Retry{}, run.CauseStart, true},
		{run.Retry{}, run.CauseOOM, true},
		{run.Retry{}, "unheard_of", true},
		{run.Retry{}, run.CauseInput, false},
		{run.Retry{}, run.CauseExecutorLost, false},
		{run.Retry{ExitCodes: []int{75}}, run.CauseStep, true},
		{run.Retry{ExitCodes: []int{1}}, run.CauseStep, false},
		{run.Retry{ExitCodes: []int{1}}, run.CauseOOM, false},
		{run.Retry{ExitCodes: []int{1}}, run.CauseStart, true},
		{run.Retry{ExitCodes: []int{1}, On: []run.RetryOn{run.RetryFailed, run.RetryOOM}}, run.CauseOOM, true},
		{run.Retry{On: []run.RetryOn{run.RetryOOM}}, run.CauseOOM, true},
		{run.Retry{On: []run.RetryOn{run.RetryOOM}}, run.CauseTimeout, false},
		{run.Retry{On: []run.RetryOn{run.RetryTimeout}}, run.CauseTimeout, true},
		{run.Retry{On: []run.RetryOn{run.RetryVanished}}, run.CauseVanished, true},
		{run.Retry{On: []run.RetryOn{run.RetryVanished}}, run.CauseStep, false},
	} {
		require.Equal(t, tt.want, tt.r.Allows(tt.cause, &code), "%+v after %s", tt.r, tt.cause)
	}
	require.False(t, run.Retry{ExitCodes: []int{75}}.Allows(run.CauseStep, nil))
}
