package engine

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func TestPoolReason(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pool  run.Pool
		place int
		want  string
	}{
		"no such pool":     {run.Pool{}, 0, "no executor of pool p is online"},
		"all gone":         {run.Pool{Offline: 2, SlotsUsed: 2}, 3, "no executor of pool p is online"},
		"all drain":        {run.Pool{Draining: 2}, 3, "all executors of pool p are draining"},
		"drain or gone":    {run.Pool{Draining: 2, Offline: 1}, 3, "all executors of pool p are draining or offline"},
		"one drains":       {run.Pool{Online: 1, Slots: 1, Draining: 2}, 1, "waits for an executor of pool p"},
		"a slot is free":   {run.Pool{Online: 1, Slots: 4, SlotsUsed: 3}, 1, "waits for an executor of pool p"},
		"one slot":         {run.Pool{Online: 1, Slots: 1, SlotsUsed: 1}, 1, "the only slot of pool p is in use; position 1 in queue"},
		"meanwhile taken":  {run.Pool{Online: 1, Slots: 1, SlotsUsed: 1}, 0, "the only slot of pool p is in use"},
		"nothing to go by": {run.Pool{Online: 1, Slots: 4, SlotsUsed: 4}, 9, "all 4 slots of pool p are in use; position 9 in queue"},
		"an estimate": {
			run.Pool{Online: 1, Slots: 4, SlotsUsed: 4, MeanElapsed: time.Minute},
			6,
			"all 4 slots of pool p are in use; position 6 in queue, about 3m",
		},
		"more used than there are": {
			run.Pool{Online: 1, Slots: 2, SlotsUsed: 3, MeanElapsed: 4 * time.Second},
			1,
			"all 2 slots of pool p are in use; position 1 in queue, about 4s",
		},
		"next to nothing": {
			run.Pool{Online: 1, Slots: 2, SlotsUsed: 2, MeanElapsed: time.Millisecond},
			1,
			"all 2 slots of pool p are in use; position 1 in queue, about 1s",
		},
		"hours": {
			run.Pool{Online: 1, Slots: 2, SlotsUsed: 2, MeanElapsed: 33 * time.Minute},
			4,
			"all 2 slots of pool p are in use; position 4 in queue, about 2h10m",
		},
		"whole hours": {
			run.Pool{Online: 1, Slots: 1, SlotsUsed: 1, MeanElapsed: time.Hour},
			5,
			"the only slot of pool p is in use; position 5 in queue, about 10h",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, poolReason(tt.pool, "p", tt.place))
		})
	}
}

func TestFleetReason(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	looked := run.FleetStatus{SeenAt: now.Add(-time.Second)}
	held := func(by string) run.FleetStatus {
		return run.FleetStatus{SeenAt: now, BlockedBy: by, Instances: 4, Limit: 4, MaxSize: 100}
	}
	failed := func(text string) run.FleetStatus { return run.FleetStatus{SeenAt: now, Error: text, ErrorAt: now} }
	coming := func(number int, state run.InstanceState, age time.Duration) run.FleetInstance {
		return run.FleetInstance{Number: number, State: state, RequestedAt: now.Add(-age)}
	}
	secret := run.FleetSpec{
		PluginConfig:    json.RawMessage(`{"endpoint": "https://cloud.example", "auth": {"api_token": "abc-123-def", "ids": [1]}}`),
		ConnectorConfig: run.FleetConnector{Password: "hunter22"},
	}
	tests := map[string]struct {
		fleet     run.Fleet
		instances []run.FleetInstance
		want      string
	}{
		"without a worker": {fleet: run.Fleet{}, want: "fleet linux: no fleet worker has watched it yet"},
		"paused":           {fleet: run.Fleet{Mode: run.FleetPaused, Status: looked}, want: "fleet linux: it is paused"},
		"paused for a reason": {
			fleet: run.Fleet{Mode: run.FleetPaused, Status: looked, Reason: "a new image"}, want: "fleet linux: it is paused: a new image",
		},
		"nothing known": {fleet: run.Fleet{Status: looked}},
		"worker ended": {
			fleet: run.Fleet{Status: run.FleetStatus{SeenAt: now.Add(-2 * time.Minute)}},
			want:  "fleet linux: its fleet worker has reported nothing since 11:58:00 UTC",
		},
		"worker ended after an error": {
			fleet: run.Fleet{Status: run.FleetStatus{Error: "Init: plugin error: no network", ErrorAt: now.Add(-2 * time.Minute)}},
			want:  "fleet linux: its fleet worker has reported nothing since 11:58:00 UTC; the last error: the plugin answered: no network",
		},
		"instances start": {
			fleet: run.Fleet{Status: looked},
			instances: []run.FleetInstance{
				{Number: 1, State: run.InstanceReady},
				coming(2, run.InstanceBootstrapping, 34*time.Second), coming(3, run.InstanceCreating, 3*time.Minute),
				coming(4, run.InstanceRequested, 0), coming(5, run.InstanceRequested, 0), coming(6, run.InstanceRequested, 0), coming(7, run.InstanceDraining, 0),
			},
			want: "instance 2 of fleet linux is booting (34 s); instance 3 of fleet linux is being created (3 min); " +
				"instance 4 of fleet linux is requested (0 s) and 2 more",
		},
		"quota": {
			fleet: run.Fleet{Status: held("quota"), Spec: run.FleetSpec{Quota: &run.FleetQuota{Name: "x", Limit: 3}}},
			want:  "fleet linux: quota x is used up",
		},
		"maximum": {
			fleet: run.Fleet{Status: held("max_instances"), Spec: run.FleetSpec{Scaling: run.Scaling{MaxInstances: 4}}},
			want:  "fleet linux: it has 4 of at most 4 instances (max_instances)",
		},
		"maximum of the plugin": {fleet: run.Fleet{Status: held("max_instances")}, want: "fleet linux: it has 4 of at most 4 instances (the limit of its plugin)"},
		"throttle":              {fleet: run.Fleet{Status: held("throttle")}, want: "fleet linux: scale_throttle delays more instances"},
		"error and an instance": {
			fleet:     run.Fleet{Status: failed("list the instances: Update: plugin error: the cloud is away (Unavailable)")},
			instances: []run.FleetInstance{coming(1, run.InstanceRequested, 3*time.Hour)},
			want:      "instance 1 of fleet linux is requested (3 h); fleet linux: list the instances: the plugin answered: the cloud is away (Unavailable)",
		},
		"refused": {
			fleet: run.Fleet{Status: failed("it requests no more instances before 12:00:05 UTC, after 1 failures in a row; the last: the plugin refused: Increase: plugin error: no servers left")},
			want:  "fleet linux: it requests no more instances before 12:00:05 UTC, after 1 failures in a row; the last: the plugin answered: no servers left",
		},
		"credentials": {
			fleet: run.Fleet{Status: failed("Init: plugin error: abc-123-def is not valid at https://cloud.example, nor is hunter22"), Spec: secret},
			want:  "fleet linux: the plugin answered: *** is not valid at https://cloud.example, nor is ***",
		},
		"long": {
			fleet: run.Fleet{Status: failed(strings.Repeat("x", 1000))},
			want:  "fleet linux: " + strings.Repeat("x", maxFleetText-len("fleet linux: ...")) + "...",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.fleet.Name, tt.fleet.Mode = "linux", cmp.Or(tt.fleet.Mode, run.FleetActive)
			require.Equal(t, tt.want, fleetReason(tt.fleet, tt.instances, now))
		})
	}
}

func TestGroupReason(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		waits []records.GroupWait
		want  string
	}{
		"none":          {nil, ""},
		"one that lets": {[]records.GroupWait{{Group: "a", MaxRunning: 2, Holding: 1, Position: 1}}, ""},
		"one that does not": {
			[]records.GroupWait{{Group: "a", MaxRunning: 1, Holding: 1, Holders: []run.ID{"x"}, Position: 1}},
			"waits for change group a: position 1 in queue, 1 of 1 slots held by x",
		},
		"behind others": {
			[]records.GroupWait{{Group: "a", MaxRunning: 1, Position: 2, Ahead: 1}},
			"waits for change group a: position 2 in queue, 0 of 1 slots held",
		},
		"behind very many": {
			[]records.GroupWait{{Group: "a", MaxRunning: 1, Position: 2001, Ahead: 2000, Later: true}},
			"waits for change group a: position 2001 or later in queue, 0 of 1 slots held",
		},
		"units that fit": {[]records.GroupWait{{Group: "a", MaxRunning: 6, Units: 2, Holding: 1, Position: 2, Ahead: 3}}, ""},
		"units that do not": {
			[]records.GroupWait{{Group: "a", MaxRunning: 6, Units: 3, Holding: 2, Holders: []run.ID{"x"}, Position: 2, Ahead: 2}},
			"waits for change group a: position 2 in queue, 2 of 6 slots held by x",
		},
		"many": {
			[]records.GroupWait{
				{Group: "a", MaxRunning: 5, Holding: 5, Holders: []run.ID{"x", "y", "z"}, Position: 7, Ahead: 6},
				{Group: "b", MaxRunning: 5, Holding: 1, Position: 1},
				{Group: "c", MaxRunning: 2, Holding: 3, Holders: []run.ID{"x", "y", "w"}, Position: 1},
			},
			"waits for change group a: position 7 in queue, 5 of 5 slots held by x, y, z and 2 more; " +
				"change group c: position 1 in queue, 3 of 2 slots held by x, y, w",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, groupReason(tt.waits))
		})
	}
}

func TestParallelReason(t *testing.T) {
	t.Parallel()
	task := func(name string, status run.Status) run.Task {
		return run.Task{Name: name, Status: status, MaxParallel: 2}
	}
	tasks := []run.Task{
		task("a[I=0]", run.StatusRunning), task("a[I=1]", run.StatusSuccess), task("a[I=2]", run.StatusWaitingApproval), task("a[I=3]", run.StatusNotStarted),
		task("b[0]", run.StatusQueued), task("b[1]", run.StatusNotStarted),
		{Name: "c", Status: run.StatusNotStarted},
	}
	begun := begunTasks(tasks)
	require.Equal(t, "waits for other tasks of its matrix or list: at most 2 at once (max_parallel)", parallelReason(&tasks[3], begun))
	require.Empty(t, parallelReason(&tasks[5], begun), "it is about to begin")
	require.Empty(t, parallelReason(&tasks[6], begun))
	require.Empty(t, parallelReason(&tasks[3], begunTasks(tasks[3:])), "the run has not begun")
}
