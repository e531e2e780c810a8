package temporalite_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/server/service/worker/scheduler"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// TestSchedules_cron compares the check of cron expressions with Temporal's
// scheduler: a schedule is valid if Temporal accepts it and each expression has
// a time, one of them in the future.
func TestSchedules_cron(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 30, 15, 0, time.UTC)
	limit := func() int { return 0 }
	builder := scheduler.NewSpecBuilder(limit, limit)
	next := func(after time.Time, s *schedulepb.ScheduleSpec) bool {
		compiled, err := builder.NewCompiledSpec(s)
		if err != nil {
			return false
		}
		at, err := compiled.GetNextTime("", after)
		require.NoError(t, err)
		return !at.Nominal.IsZero()
	}
	check := func(zone string, start time.Time, cron ...string) bool {
		t.Helper()
		s := run.ScheduleSpec{
			Name: "nightly", Cron: cron, Timezone: zone, StartAt: start,
			Spec: &run.Spec{Name: "a", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"t": {Steps: []run.Step{{Run: "true"}}}}},
		}
		temporal := &schedulepb.ScheduleSpec{CronString: cron, TimezoneName: zone}
		if !start.IsZero() {
			temporal.StartTime = timestamppb.New(start)
		}
		want := next(now, temporal)
		for _, c := range cron {
			want = want && next(time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC), &schedulepb.ScheduleSpec{CronString: []string{c}, TimezoneName: zone})
		}
		faults := spec.ValidateSchedule(s, now)
		require.Equal(t, want, len(faults) == 0, "%q in %q from %s: %v", cron, zone, start, faults)
		return want
	}

	for i, values := range [][]string{
		{"*", "0", "59", "60", "+5", "-5", "", "5-", "-", "5-9", "9-5", "5-9/2", "5/7", "5/", "/5", "5/0", "5/-1", "*/100", "1,2,*", "1,,2", "1/2/3", "1-2-3", "*-5", "5/2147483647", "5/2147483648", "5/9223372036854775807"},
		{"23", "24", "0-23/23", "1.5", "0x1", "１"},
		{"0", "31", "32", "30,31", "L", "?"},
		{"0", "13", "JAN", "ja", "janu", "januaryx", "mar-jan", "Jan-MAR/2", "12/3"},
		{"7", "8", "su", "s", "sunday", "fri-sun", "fri-7", "5-7/2", "*/7", "7-7", "sat,7"},
		{"*", "1999", "2000", "2026", "2100", "2101", "2026-2100/3", "*/50"},
	} {
		for _, value := range values {
			fields := []string{"0", "3", "*", "*", "*", "2026-2100"}
			fields[i] = value
			check("", time.Time{}, strings.Join(fields, " "))
			check("", time.Time{}, strings.Join(fields[:5], " "))
			check("Europe/Berlin", time.Time{}, strings.Join(append([]string{value}, fields...), " "))
		}
	}
	for text, good := range map[string]bool{
		"@daily": true, "@Daily": false, "@dayly": false, "@daily *": false, "@hourly # note": true,
		"@every 6h": true, "@every6h": false, "@every": false, "@every\t6h": false, "@every  6h": false, "@every 6h 30m": false, "@every 6h # note": true,
		"@every 1d12h": true, "@every 1.5d": true, "@every .5d": true, "@every 1.d": true, "@every d": false, "@every 1d-1h": false, "@every 1w": false,
		"@every 6h/": true, "@every 6h/30m": true, "@every 6h/0": true, "@every 6h/6h": false, "@every 6h/-1m": false, "@every 6h/x": false, "@every 6h/1h/1h": false,
		"@every 1d/12h": true, "@every 1.5s": true, "@every 1s": true, "@every 999ms": false, "@every 0": false, "@every -6h": false, "@every 300y": false, "@every 9999999h": false,
		"CRON_TZ=Asia/Tokyo @every 6h": true, "CRON_TZ=Nowhere @every 6h": true, "CRON_TZ=Nowhere 0 3 * * *": false, "TZ=Asia/Tokyo": false, "TZ=Asia/Tokyo ": false,
		"TZ= 0 3 * * *": true, "CRON_TZ=Asia/Tokyo  0 3 * * * #": true, "TZ=Asia/Tokyo\t0 3 * * *": false,
		"0 3 * * * #" + strings.Repeat("x", 200): true, "0 3 * * * # " + strings.Repeat("x", 201): false, "@every 6h # " + strings.Repeat("x", 201): true,
		"0 0 29 2 1": true, "0 0 30 2 *": false, "0 0 31 4,6,9,11 *": false, "0 0 29 2 * 2025": false, "0 0 29 2 * 2025-2031": true, "0 0 * * * 2032": true, "0 0 * * * 2025": false,
		"29 12 27 11 * 2026": false, "30 12 27 11 * 2026": false, "31 12 27 11 * 2026": true, "15 30 12 27 11 * 2026": false, "16 30 12 27 11 * 2026": true,
		"0 11 27 11 * 2026": false, "0 13,9 27 11 * 2026": true, "0 0 28 11 * 2026": true,
	} {
		require.Equal(t, good, check("", time.Time{}, text), text)
	}
	for i, x := range []struct {
		zone  string
		cron  []string
		start time.Time
		good  bool
	}{
		{cron: []string{"0 0 * * * 2025", "0 3 * * *"}, good: true},
		{cron: []string{"0 0 * * * 2025", "@every 6h"}, good: true},
		{cron: []string{"0 0 * * * 2025", "0 0 * * * 2024"}},
		{cron: []string{"0 0 30 2 *", "0 3 * * *"}},
		{cron: []string{"0 0 * * * 2027"}, start: now.AddDate(0, 6, 0), good: true},
		{cron: []string{"0 0 * * * 2027"}, start: now.AddDate(2, 0, 0)},
		{cron: []string{"0 0 * * * 2034"}, start: now.AddDate(7, 0, 0), good: true},
		{cron: []string{"0 0 1 1 * 2028"}, start: time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC), good: true},
		{cron: []string{"0 0 1 1 * 2028"}, start: time.Date(2028, 1, 1, 0, 0, 1, 0, time.UTC)},
		{zone: "Asia/Tokyo", cron: []string{"0 21 27 11 * 2026"}},
		{zone: "Asia/Tokyo", cron: []string{"0 22 27 11 * 2026"}, good: true},
		{zone: "America/New_York", cron: []string{"31 7 27 11 * 2026"}, good: true},
		{zone: "Nowhere", cron: []string{"0 3 * * *"}},
		{zone: "Europe/Berlin", cron: []string{"TZ=Asia/Tokyo 0 3 * * *"}},
		{zone: "Europe/Berlin", cron: []string{"TZ=Asia/Tokyo @every 6h"}, good: true},
		{zone: "Asia/Tokyo", cron: []string{"TZ=Asia/Tokyo 0 3 * * *"}, good: true},
		{cron: []string{"TZ=Asia/Tokyo 0 3 * * *", "CRON_TZ=Asia/Tokyo 0 4 * * *"}, good: true},
		{cron: []string{"TZ=Asia/Tokyo 0 3 * * *", "0 4 * * *"}},
		{cron: []string{"TZ=Asia/Tokyo 0 3 * * *", "TZ=Asia/Tokyo @every 6h"}},
		{cron: []string{"TZ=Asia/Tokyo @every 6h", "0 4 * * *"}, good: true},
	} {
		require.Equal(t, x.good, check(x.zone, x.start, x.cron...), fmt.Sprint(i))
	}
}
