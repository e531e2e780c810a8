package scaling

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// Replacing is all data that Replace depends on.
type Replacing struct {
	Instances []Instance
	// Required is how many instances the fleet needs besides those that drain or
	// are deleted, regardless of the limits.
	Required int
	// Needed is how many instances all tasks of the fleet, also those on draining
	// instances, and its idle slots need.
	Needed int
	// Allowed is how many instances the limits allow, or Unlimited.
	Allowed int
	Update  run.FleetUpdate
}

// Replacement says how to continue a rollout.
type Replacement struct {
	// Drain are the outdated instances that are to take no more tasks. They are
	// deleted when their tasks have ended.
	Drain []string
	// Surge is how many instances to have beyond the required ones.
	Surge int
	// Room is how many more instances may exist; nil: no rollout limits them.
	Room *int
	// Size is the number of instances that the bounds refer to.
	Size int
}

// Replace decides which outdated instances to drain next.
//
//   - Outdated instances that are not ready are drained: they take no tasks, so
//     nothing is lost.
//   - Of the ready ones, as many are drained as leave Size, less
//     max_unavailable, ready instances of any revision. Idle ones come first.
//   - As long as outdated instances remain, there may be up to max_surge
//     instances beyond the needed ones. All instances count, in any state: a
//     machine costs money and quota until it is gone.
//
// If the limits leave no room for a surge and max_unavailable is 0, it counts as
// 1: otherwise the rollout would never end.
func Replace(in Replacing) Replacement {
	r := Replacement{Size: max(0, in.Required)}
	limited := in.Allowed != Unlimited
	if limited {
		r.Size = min(r.Size, max(0, in.Allowed))
	}
	surge, unavailable := in.Update.Bounds(r.Size)
	serving, ready := 0, 0
	var outdated []Instance
	for _, i := range in.Instances {
		if i.State.terminating() {
			continue
		}
		serving++
		if i.State == StateReady && !i.Unhealthy {
			ready++
		}
		// The policy removes unhealthy instances. A request without a machine
		// cannot be drained.
		if i.Outdated && !i.Unhealthy {
			outdated = append(outdated, i)
		}
	}
	if limited && unavailable == 0 && serving >= in.Allowed {
		unavailable = 1
	}
	slices.SortFunc(outdated, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Busy, b.Busy), a.IdleSince.Compare(b.IdleSince), strings.Compare(a.ID, b.ID))
	})
	spare := ready - max(0, r.Size-unavailable)
	for _, i := range outdated {
		switch {
		case i.State == StateRequested:
			continue
		case i.State == StateReady && spare <= 0:
			continue
		case i.State == StateReady:
			spare--
		}
		r.Drain = append(r.Drain, i.ID)
	}
	r.Surge = min(surge, len(outdated)-len(r.Drain))
	room := max(0, max(r.Size, in.Needed)+surge-len(in.Instances))
	r.Room = &room
	return r
}

// compareOutdated orders outdated instances before others.
func compareOutdated(a, b Instance) int {
	switch {
	case a.Outdated == b.Outdated:
		return 0
	case a.Outdated:
		return -1
	}
	return 1
}
