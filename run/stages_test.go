package run_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// stageTask is a task that was claimed at second 0. Its steps are given as
// "TYPE STATUS FROM..TO STAGE", in seconds, with "-" for no stage.
func stageTask(t *testing.T, status run.Status, ended int, steps ...string) *run.Task {
	t.Helper()
	task := &run.Task{Status: status, StartedAt: second(0)}
	if ended > 0 {
		task.EndedAt = second(ended)
	}
	for _, text := range steps {
		f := strings.Fields(text)
		require.Len(t, f, 4, text)
		s := run.StepState{Type: f[0], StepResult: run.StepResult{Status: run.Status(f[1])}}
		from, to, _ := strings.Cut(f[2], "..")
		s.Started, s.Ended = secondOf(t, from), secondOf(t, to)
		if f[3] != "-" {
			s.Stage = run.Stage(f[3])
		}
		task.Steps = append(task.Steps, s)
	}
	return task
}

func second(n int) time.Time {
	return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

func secondOf(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	d, err := time.ParseDuration(text + "s")
	require.NoError(t, err)
	return second(0).Add(d)
}

func TestStagesOf(t *testing.T) {
	t.Parallel()
	at := func(stage run.Stage, step, from, to int) run.StageTimes {
		s := run.StageTimes{Stage: stage, Step: step, Started: second(from)}
		if to >= 0 {
			s.Ended = second(to)
		}
		return s
	}
	for name, tt := range map[string]struct {
		task    *run.Task
		want    []run.StageTimes
		current run.Stage
	}{
		"not claimed": {&run.Task{Status: run.StatusQueued}, nil, ""},
		"claimed": {
			stageTask(t, run.StatusRunning, 0, "run not_started .. -"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, -1)},
			run.StagePrepare,
		},
		"could not start": {
			stageTask(t, run.StatusFailed, 9, "run skipped .. -"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 9)},
			"",
		},
		"running": {
			stageTask(t, run.StatusRunning, 0, "run running 5.. -", "run not_started .. -"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 5), at(run.StageStep, 0, 5, -1)},
			run.StageStep,
		},
		"between two steps": {
			stageTask(t, run.StatusRunning, 0, "run success 5..6 -", "save_cache not_started .. -"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 5), at(run.StageStep, 0, 5, 6)},
			run.StageStep,
		},
		"archives of an older shim": {
			stageTask(t, run.StatusRunning, 0, "restore_cache success 5..6 -", "run skipped .. -", "save_artifacts running 6.. -"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 5), at(run.StagePrepare, 0, 5, 6), at(run.StageTransfer, 2, 6, -1)},
			run.StageTransfer,
		},
		"after a failure": {
			stageTask(t, run.StatusFailed, 8, "run failed 5..6 -", "save_artifacts success 6..8 cleanup"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 5), at(run.StageStep, 0, 5, 6), at(run.StageCleanup, 1, 6, 8)},
			"",
		},
		"remaining processes": {
			stageTask(t, run.StatusRunning, 0, "run success 5..6 -"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 5), at(run.StageStep, 0, 5, 6), at(run.StageCleanup, -1, 6, -1)},
			run.StageCleanup,
		},
		"remaining processes ended": {
			stageTask(t, run.StatusSuccess, 7, "run success 5..6 -"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 5), at(run.StageStep, 0, 5, 6), at(run.StageCleanup, -1, 6, 7)},
			"",
		},
		"the end at once": {
			stageTask(t, run.StatusSuccess, 6, "run success 5..5.5 -"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 5), {Stage: run.StageStep, Started: second(5), Ended: second(5).Add(time.Second / 2)}},
			"",
		},
		"vanished": {
			stageTask(t, run.StatusFailed, 9, "run failed 5.. -"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 5), at(run.StageStep, 0, 5, 9)},
			"",
		},
		"another clock": { // the executor's is behind the gateway's
			stageTask(t, run.StatusSuccess, 2, "run success -5..-4 -"),
			[]run.StageTimes{
				{Stage: run.StagePrepare, Step: -1, Started: second(-5), Ended: second(-5)},
				{Stage: run.StageStep, Started: second(-5), Ended: second(-4)},
				{Stage: run.StageCleanup, Step: -1, Started: second(-4), Ended: second(2)},
			},
			"",
		},
		"a newer shim": {
			stageTask(t, run.StatusRunning, 0, "run running 5.. polish"),
			[]run.StageTimes{at(run.StagePrepare, -1, 0, 5), at(run.StageStep, 0, 5, -1)},
			run.StageStep,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, run.StagesOf(tt.task))
			require.Equal(t, tt.current, run.CurrentStage(tt.task))
		})
	}
}

func TestStageChanges(t *testing.T) {
	t.Parallel()
	steps := []run.StepResult{
		{Started: second(1), Stage: run.StagePrepare},
		{Started: second(2)},
		{Status: run.StatusSkipped, Stage: run.StageTransfer},
		{Started: second(3)},
		{Started: second(4), Stage: run.StageTransfer},
		{Started: second(5)},
		{Status: run.StatusNotStarted},
	}
	require.Equal(t, 3, run.StageChanges(steps))
	require.Equal(t, run.StageStep, run.LatestStage(steps))
	require.Equal(t, run.StageTransfer, run.LatestStage(steps[:5]))
	require.Equal(t, run.StagePrepare, run.LatestStage(nil))
	require.Zero(t, run.StageChanges(nil))
}
