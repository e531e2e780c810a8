package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-run/drover/run"
)

// explainFleets sets what the fleets of pools report, for tasks that wait while
// no executor is online.
func (e *Engine) explainFleets(ctx context.Context, r run.Run, queues *queueInfo) error {
	waits := func(pool string) bool {
		return slices.ContainsFunc(r.Tasks, func(t run.Task) bool {
			return t.Pool == pool && t.Status == run.StatusQueued && online(queues, &t) == 0
		})
	}
	if !slices.ContainsFunc(r.Tasks, func(t run.Task) bool { return waits(t.Pool) }) {
		return nil
	}
	all, err := e.store.ListFleets(ctx)
	if err != nil {
		return err
	}
	for _, f := range all {
		if text := fleetReason(f); text != "" && waits(f.Spec.Pool) {
			queues.fleets[f.Spec.Pool] += "; fleet " + f.Name + ": " + text
		}
	}
	return nil
}

// online returns how many executors are online that may run a task.
func online(queues *queueInfo, t *run.Task) int {
	p, _, _ := queues.poolOf(t)
	return p.Online
}

// fleetReason returns why a fleet has no executor online, or what it is doing
// about it. It returns "" if nothing is known.
func fleetReason(f run.Fleet) string {
	requested, coming := f.Counts[run.InstanceRequested], f.Counts[run.InstanceCreating]+f.Counts[run.InstanceBootstrapping]
	switch {
	case f.Mode != run.FleetActive:
		return "it is " + string(f.Mode)
	case f.Status.SeenAt.IsZero() && f.Status.Error == "":
		return "no fleet worker has watched it yet"
	case f.Status.Error != "":
		return f.Status.Error
	case requested+coming > 0:
		return fmt.Sprintf("instances coming up: %d not listed by the plugin yet, %d being created or bootstrapped", requested, coming)
	case f.Status.BlockedBy != "":
		return "it requests no more instances: " + f.Status.BlockedBy
	}
	return ""
}
