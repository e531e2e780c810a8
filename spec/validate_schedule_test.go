package spec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func goodSchedule() run.ScheduleSpec {
	return run.ScheduleSpec{
		Name: "nightly", Cron: []string{"0 3 * * *"}, Intervals: []run.Interval{{Every: run.Duration(time.Hour), Offset: run.Duration(time.Minute)}},
		Timezone: "UTC", Jitter: run.Duration(time.Minute), StartAt: time.Unix(1, 0), EndAt: time.Unix(2, 0), Overlap: run.OverlapSkip,
		CatchupWindow: run.Duration(time.Minute), Note: "why",
		Spec: &run.Spec{Name: "a", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"t": {Steps: []run.Step{{Run: "true"}}}}},
	}
}

func TestValidateSchedule(t *testing.T) {
	t.Parallel()
	require.Empty(t, spec.ValidateSchedule(goodSchedule(), time.Unix(0, 0)))
	for name, tt := range map[string]struct {
		change func(*run.ScheduleSpec)
		path   string
		code   run.Code
	}{
		"no_name":              {func(s *run.ScheduleSpec) { s.Name = "" }, "name", run.FaultBadFormat},
		"no_spec":              {func(s *run.ScheduleSpec) { s.Spec = nil }, "spec", run.FaultRequired},
		"a_bad_group":          {func(s *run.ScheduleSpec) { s.Spec.Group = "/a" }, "spec.group", run.FaultBadFormat},
		"an_empty_step":        {func(s *run.ScheduleSpec) { s.Spec.Tasks["t"].Steps[0].Run = "" }, "spec.tasks.t.steps[0]", run.FaultRequired},
		"no_times":             {func(s *run.ScheduleSpec) { s.Cron, s.Intervals = nil, nil }, "", run.FaultRequired},
		"too_many_times":       {func(s *run.ScheduleSpec) { s.Cron = make([]string, 101) }, "cron", run.FaultOverLimit},
		"an_empty_cron":        {func(s *run.ScheduleSpec) { s.Cron = []string{" "} }, "cron[0]", run.FaultRequired},
		"a_long_cron":          {func(s *run.ScheduleSpec) { s.Cron[0] += strings.Repeat("x", 500) }, "cron[0]", run.FaultOverLimit},
		"a_short_interval":     {func(s *run.ScheduleSpec) { s.Intervals[0] = run.Interval{Every: 1} }, "intervals[0].every", run.FaultOutOfRange},
		"a_long_offset":        {func(s *run.ScheduleSpec) { s.Intervals[0].Offset = s.Intervals[0].Every }, "intervals[0].offset", run.FaultOutOfRange},
		"a_negative_offset":    {func(s *run.ScheduleSpec) { s.Intervals[0].Offset = -1 }, "intervals[0].offset", run.FaultOutOfRange},
		"a_negative_jitter":    {func(s *run.ScheduleSpec) { s.Jitter = -1 }, "jitter", run.FaultOutOfRange},
		"a_long_timezone":      {func(s *run.ScheduleSpec) { s.Timezone = strings.Repeat("x", 101) }, "timezone", run.FaultOverLimit},
		"it_ends_before":       {func(s *run.ScheduleSpec) { s.EndAt = time.Unix(0, 1) }, "end_at", run.FaultContradiction},
		"an_unknown_overlap":   {func(s *run.ScheduleSpec) { s.Overlap = "skipp" }, "overlap", run.FaultBadValue},
		"a_short_window":       {func(s *run.ScheduleSpec) { s.CatchupWindow = run.Duration(time.Second) }, "catchup_window", run.FaultOutOfRange},
		"a_long_note":          {func(s *run.ScheduleSpec) { s.Note = strings.Repeat("x", 1001) }, "note", run.FaultOverLimit},
		"too_many_annotations": {func(s *run.ScheduleSpec) { s.Spec.Annotations = manyAnnotations() }, "spec.annotations", run.FaultOverLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := goodSchedule()
			tt.change(&s)
			faults := spec.ValidateSchedule(s, time.Unix(0, 0))
			require.Len(t, faults, 1)
			require.Equal(t, tt.path, faults[0].Path)
			require.Equal(t, tt.code, faults[0].Code)
		})
	}
}

func TestValidateSchedule_cron(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 30, 0, 0, time.UTC)
	faultsOf := func(zone string, cron ...string) []string {
		s := goodSchedule()
		s.Cron, s.Timezone, s.Intervals = cron, zone, nil
		var all []string
		for _, f := range spec.ValidateSchedule(s, now) {
			all = append(all, f.Path+": "+f.Detail)
		}
		return all
	}
	for _, good := range []string{
		"0 3 * * *", "*/5 0-6/2,12 1,15 * *", "30 2 * JAN,Jul mon-Fri", "0 0 * dec sunday", "0 0 29 2 *", "0 0 * * 7", "0 0 1-31 * 5-7", "3/5 * * * *",
		"0 12 27 11 * 2026-2030", "0 0 1 1 * 2027", "15 30 3 * * * *", "0 0 3 * * 1 2030", "@daily", "@hourly # each hour", "@every 90m", "@every 6h/30m", "@every 6h/", "@every 3d", "@every 1d12h", "@every 1.5d", "0 0 * * * 2032", "CRON_TZ=Nowhere @every 6h",
		"0 3 * * * # at night", "  0   3 * * *  ",
	} {
		require.Empty(t, faultsOf("", good), good)
		require.Empty(t, faultsOf("Europe/Berlin", good), good)
	}
	require.Empty(t, faultsOf("", "0 0 * * * 2025", "0 3 * * *"), "one has times to come")
	require.Empty(t, faultsOf("", "31 12 27 11 * 2026"))
	require.Empty(t, faultsOf("", "CRON_TZ=Asia/Tokyo 0 3 * * *", "TZ=Asia/Tokyo 0 4 * * *"))
	for expression, want := range map[string]string{
		"0 25 * * *":                `field 2 of 5, the hour, is "25": a number from 0 to 23 is expected`,
		"60 3 * * *":                `field 1 of 5, the minute, is "60": a number from 0 to 59 is expected`,
		"0 3 0 * *":                 `field 3 of 5, the day of the month, is "0": a number from 1 to 31 is expected`,
		"0 3 * abc *":               `field 4 of 5, the month, is "abc": a number from 1 to 12 or a name such as feb is expected`,
		"0 3 * * 8":                 `field 5 of 5, the weekday, is "8": a number from 0 to 7 or a name such as mon is expected`,
		"0 3 * * * 1999":            `field 6 of 6, the year, is "1999": a number from 2000 to 2100 is expected`,
		"61 0 3 * * * *":            `field 1 of 7, the second, is "61"`,
		"*/0 3 * * *":               `after / a step from 1 to 2147483647 is expected, not "0"`,
		"*/x 3 * * *":               `after / a step from 1 to 2147483647 is expected, not "x"`,
		"0 5-3 * * *":               `the range "5-3" ends before it begins`,
		"0 1-2-3 * * *":             `field 2 of 5, the hour, is "1-2-3"`,
		"0 -1 * * *":                `field 2 of 5, the hour, is "-1"`,
		"0 3 * *":                   "the expression has 4 fields; it has 5",
		"0 3 * * * * * *":           "the expression has 8 fields",
		"@dayly":                    `did you mean "@daily"?`,
		"@every":                    "is not an interval",
		"@every x":                  "is not an interval",
		"@every 1h/x":               "is not an interval",
		"@every6h":                  "is not an interval",
		"@every  6h":                "is not an interval",
		"@every 999ms":              "the interval is 999ms; it must be at least 1s",
		"@every 6h/6h":              "the offset is 6h0m0s; it must be within the interval",
		"*/4294967296 3 * * *":      "after / a step from 1 to 2147483647 is expected",
		"0 0 30 2 *":                "the expression never has a time",
		"0 0 31 4,6,9,11 *":         "the expression never has a time",
		"0 0 * * * 2025":            "the schedule has no time after 2026-11-27T12:30:00Z",
		"30 12 27 11 * 2026":        "the schedule has no time after 2026-11-27T12:30:00Z",
		"TZ=Europe/Berln 0 3 * * *": `there is no time zone "Europe/Berln"`,
	} {
		faults := faultsOf("", expression)
		require.Len(t, faults, 1, expression)
		require.Contains(t, faults[0], want)
		require.True(t, strings.HasPrefix(faults[0], "cron[0]: "), faults[0])
	}
	// All faults are reported together.
	require.Len(t, faultsOf("Europe/Berln", "61 25 * * *", "0 3 * * *", "0 3 32 * *"), 4)
	require.Len(t, faultsOf("UTC", "TZ=Asia/Tokyo 0 3 * * *"), 1)
	require.Len(t, faultsOf("", "TZ=Asia/Tokyo 0 3 * * *", "0 4 * * *"), 1)
	require.Len(t, faultsOf("", "0 0 * * * 2025", "0 0 * * * 2024"), 1)
	require.Len(t, faultsOf("", "0 3 * * * #"+strings.Repeat("x", 201)), 1)
}

// manyAnnotations returns as many annotations as a run may have; a schedule
// adds its own.
func manyAnnotations() map[string]string {
	all := make(map[string]string)
	for i := range run.MaxAnnotations {
		all[strings.Repeat("x", i/90+1)+string(rune('!'+i%90))] = ""
	}
	delete(all, "x=")
	all["last"] = ""
	return all
}

func TestScheduleSpec_ScheduledSpec(t *testing.T) {
	t.Parallel()
	s := goodSchedule()
	s.Spec.Annotations = map[string]string{"a": "b"}
	scheduled := s.ScheduledSpec(time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)))
	require.Equal(t, map[string]string{"a": "b", "drover.schedule": "nightly", "drover.scheduled_for": "2026-01-02T02:04:05Z"}, scheduled.Annotations)
	require.Equal(t, map[string]string{"a": "b"}, s.Spec.Annotations, "the schedule is unchanged")
}

func TestValidateBackfill(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	require.Empty(t, spec.ValidateBackfill(run.Backfill{From: at(1), To: at(2), Overlap: run.OverlapAllowAll}, now))
	for name, tt := range map[string]struct {
		b     run.Backfill
		paths []string
	}{
		"no_bounds":     {run.Backfill{}, []string{"from", "to"}},
		"to_come":       {run.Backfill{From: at(1), To: at(2000)}, []string{"to"}},
		"the_other_way": {run.Backfill{From: at(2), To: at(1)}, []string{"to"}},
		"bad_overlap":   {run.Backfill{From: at(1), To: at(2), Overlap: "x"}, []string{"overlap"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for _, f := range spec.ValidateBackfill(tt.b, now) {
				paths = append(paths, f.Path)
			}
			require.Equal(t, tt.paths, paths)
		})
	}
	require.NotEmpty(t, spec.ValidateOverlap("x"))
	require.Empty(t, spec.ValidateOverlap(""))
}

func TestUnder(t *testing.T) {
	t.Parallel()
	got := spec.Under("spec", []run.Fault{{Path: "a.b"}, {Path: ""}, {Path: `["x y"]`}})
	require.Equal(t, []run.Fault{{Path: "spec.a.b"}, {Path: "spec"}, {Path: `spec["x y"]`}}, got)
}
