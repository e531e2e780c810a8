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
	require.Empty(t, spec.ValidateSchedule(goodSchedule()))
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
			faults := spec.ValidateSchedule(s)
			require.Len(t, faults, 1)
			require.Equal(t, tt.path, faults[0].Path)
			require.Equal(t, tt.code, faults[0].Code)
		})
	}
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
