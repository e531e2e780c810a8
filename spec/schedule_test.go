package spec_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

const fullSchedule = `name: nightly
spec:
  name: build
  group: /a/b
  environment: {GO: 1.20}
  secrets: {TOKEN: hidden}
  tasks: {t: {steps: [{run: make}], depends: [u]}, u: {steps: [{run: make}]}}
cron: ["0 3 * * *", "@daily"]
intervals: [{every: 6h, offset: 30m}]
timezone: Europe/Berlin
jitter: 1m
start_at: 2026-01-02T03:04:05+01:00
end_at: "2027-01-01T00:00:00Z"
overlap: buffer_one
catchup_window: 1h
pause_on_failure: true
paused: false
note: why
`

func TestReadSchedule(t *testing.T) {
	t.Parallel()
	got, err := spec.ReadSchedule([]byte(fullSchedule), spec.FormatYAML)
	require.NoError(t, err)
	paused := false
	want := run.ScheduleSpec{
		Name: "nightly",
		Spec: &run.Spec{
			Name: "build", Group: "/a/b", Environment: map[string]string{"GO": "1.20"}, Secrets: map[string]run.Secret{"TOKEN": "hidden"},
			Tasks: map[string]*run.TaskSpec{
				"t": {Steps: []run.Step{{Run: "make"}}, Depends: []run.Depend{{Task: "u"}}},
				"u": {Steps: []run.Step{{Run: "make"}}},
			},
		},
		Cron: []string{"0 3 * * *", "@daily"}, Intervals: []run.Interval{{Every: run.Duration(6 * time.Hour), Offset: run.Duration(30 * time.Minute)}},
		Timezone: "Europe/Berlin", Jitter: run.Duration(time.Minute), StartAt: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC),
		EndAt: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), Overlap: run.OverlapBufferOne, CatchupWindow: run.Duration(time.Hour),
		PauseOnFailure: true, Paused: &paused, Note: "why",
	}
	require.Empty(t, cmp.Diff(want, *got))
	require.Empty(t, spec.ValidateSchedule(*got, time.Unix(0, 0)))

	got, err = spec.ReadSchedule([]byte(`{"spec": {"name": "a"}, "intervals": [{"every": "1s"}]}`), spec.FormatJSON)
	require.NoError(t, err)
	require.Nil(t, got.Paused)
	require.Nil(t, got.Spec.Secrets)
	require.Equal(t, run.Duration(time.Second), got.Intervals[0].Every)
}

func TestReadSchedule_faults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		code run.Code
		path string
		line int
	}{
		"not a map":          {"- a", run.CodeInvalid, "", 1},
		"empty":              {"", run.CodeUnreadable, "", 0},
		"unknown":            {"spec: {name: a}\ncorn: ['@daily']", run.CodeInvalid, "corn", 2},
		"unknown in spec":    {"spec:\n  name: a\n  task: {}", run.CodeInvalid, "spec.task", 3},
		"cron is a text":     {"cron: '@daily'", run.CodeInvalid, "cron", 1},
		"a bad duration":     {"intervals:\n- every: often", run.CodeInvalid, "intervals[0].every", 2},
		"a bad time":         {"\nstart_at: yesterday", run.CodeInvalid, "start_at", 2},
		"a time of a number": {"end_at: 12", run.CodeInvalid, "end_at", 1},
		"paused is a text":   {"paused: 'no'", run.CodeInvalid, "paused", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := spec.ReadSchedule([]byte(tt.text), spec.FormatYAML)
			require.Equal(t, tt.code, run.CodeOf(err), "%v", err)
			e, ok := errors.AsType[*run.Error](err)
			require.True(t, ok)
			if tt.code == run.CodeInvalid {
				require.Len(t, e.Faults, 1)
				require.Equal(t, tt.path, e.Faults[0].Path)
				require.Equal(t, tt.line, e.Faults[0].Line)
				require.Contains(t, e.Message, "the schedule has a fault")
			}
		})
	}
}

func TestLocateSchedule(t *testing.T) {
	t.Parallel()
	faults := spec.LocateSchedule([]run.Fault{
		{Path: "spec.tasks.t.pool"}, {Path: "cron[1]"}, {Path: "spec.tasks.t.steps[0].run"}, {Path: "overlap"}, {Path: ""}, {Path: "timezone", Line: 99},
	}, []byte(fullSchedule), spec.FormatYAML)
	var lines []int
	for _, f := range faults {
		lines = append(lines, f.Line)
	}
	require.Equal(t, []int{7, 8, 7, 14, 1, 99}, lines)
	require.Equal(t, []run.Fault{{Path: "cron"}}, spec.LocateSchedule([]run.Fault{{Path: "cron"}}, []byte("{"), spec.FormatJSON))
}
