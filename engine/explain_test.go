package engine

import (
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
	looked := run.FleetStatus{SeenAt: time.Now()}
	tests := map[string]struct {
		fleet run.Fleet
		want  string
	}{
		"without a worker": {run.Fleet{Mode: run.FleetActive}, "no fleet worker has watched it yet"},
		"paused":           {run.Fleet{Mode: run.FleetPaused, Status: looked}, "it is paused"},
		"at a loss":        {run.Fleet{Mode: run.FleetActive, Status: looked}, ""},
		"some come":        {run.Fleet{Mode: run.FleetActive, Status: looked, Counts: map[run.InstanceState]int{run.InstanceRequested: 1, run.InstanceBootstrapping: 2, run.InstanceCreating: 3}}, "instances coming up: 1 not listed by the plugin yet, 5 being created or bootstrapped"},
		"held":             {run.Fleet{Mode: run.FleetActive, Status: run.FleetStatus{SeenAt: time.Now(), BlockedBy: "quota"}}, "it requests no more instances: quota"},
		"with an error":    {run.Fleet{Mode: run.FleetActive, Status: run.FleetStatus{Error: "the cloud is away"}, Counts: map[run.InstanceState]int{run.InstanceRequested: 1}}, "the cloud is away"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, fleetReason(tt.fleet))
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
			[]records.GroupWait{{Group: "a", MaxRunning: 1, Position: 2}},
			"waits for change group a: position 2 in queue, 0 of 1 slots held",
		},
		"many": {
			[]records.GroupWait{
				{Group: "a", MaxRunning: 5, Holding: 5, Holders: []run.ID{"x", "y", "z"}, Position: 7},
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
