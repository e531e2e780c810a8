package engine

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

const (
	// namedFleets and namedInstances bound what a reason names, and maxFleetText
	// how many bytes it has about one fleet.
	namedFleets    = 3
	namedInstances = 3
	maxFleetText   = 400
	// fleetSilence is how long a fleet worker may report nothing before a reason
	// says so. It reports every 15 s.
	fleetSilence = time.Minute
)

// explainFleets sets what the fleets of pools report, for tasks that wait while
// no executor of their pool has a free slot.
func (e *Engine) explainFleets(ctx context.Context, r run.Run, queues *queueInfo) error {
	waits := func(pool string) bool {
		return slices.ContainsFunc(r.Tasks, func(t run.Task) bool {
			if t.Pool != pool || t.Status != run.StatusQueued {
				return false
			}
			p, _, _ := queues.poolOf(&t)
			return noFreeSlot(p)
		})
	}
	if !slices.ContainsFunc(r.Tasks, func(t run.Task) bool { return waits(t.Pool) }) {
		return nil
	}
	// A run that was submitted before its group lost the pool still waits there.
	hidden := func(pool string) bool {
		p, ok := queues.pools[pool]
		return ok && run.OthersHidden(ctx) && !p.Allows(r.Group)
	}
	all, err := e.store.ListFleets(ctx)
	if err != nil {
		return err
	}
	// Waiting tasks go to the fleets of a pool in this order.
	slices.SortStableFunc(all, func(a, b run.Fleet) int { return cmp.Compare(b.Spec.Priority, a.Spec.Priority) })
	now, named := time.Now(), map[string]int{}
	for _, f := range all {
		pool := f.Spec.Pool
		if named[pool] == namedFleets || !waits(pool) || hidden(pool) {
			continue
		}
		instances, err := e.store.FleetInstances(ctx, f.Name, false)
		if run.CodeOf(err) == run.CodeNotFound { // deleted meanwhile
			continue
		}
		if err != nil {
			return err
		}
		if text := fleetReason(f, instances, now); text != "" {
			queues.fleets[pool] += "; " + text
			named[pool]++
		}
	}
	return nil
}

// fleetReason returns why a fleet has no free slot for a task, and what it is doing
// about it. It returns "" if nothing is known.
func fleetReason(f run.Fleet, instances []run.FleetInstance, now time.Time) string {
	// Instances come first: a limit or an error matters only for further ones.
	parts := comingInstances(f.Name, instances, now)
	if text := fleetProblem(f, now); text != "" {
		parts = append(parts, "fleet "+f.Name+": "+text)
	}
	return truncate.String(withoutCredentials(f.Spec, strings.Join(parts, "; ")), maxFleetText, "...")
}

// fleetProblem returns what keeps a fleet from adding instances, or "".
func fleetProblem(f run.Fleet, now time.Time) string {
	seen := f.Status.SeenAt
	if f.Status.ErrorAt.After(seen) {
		seen = f.Status.ErrorAt
	}
	switch {
	case f.Mode != run.FleetActive && f.Reason != "":
		return "it is " + string(f.Mode) + ": " + f.Reason
	case f.Mode != run.FleetActive:
		return "it is " + string(f.Mode)
	case seen.IsZero() && f.Status.Error == "":
		return "no fleet worker has watched it yet"
	case now.Sub(seen) > fleetSilence:
		text := "its fleet worker has reported nothing since " + seen.UTC().Format(time.TimeOnly) + " UTC"
		if f.Status.Error != "" {
			text += "; the last error: " + pluginAnswer(f.Status.Error)
		}
		return text
	case f.Status.Error != "":
		return pluginAnswer(f.Status.Error)
	}
	return heldText(f)
}

// heldText describes the limit that keeps a fleet from requesting more instances.
func heldText(f run.Fleet) string {
	switch held := scaling.Reason(f.Status.BlockedBy); held {
	case "":
		return ""
	case scaling.ReasonQuota:
		if f.Spec.Quota != nil {
			return "quota " + f.Spec.Quota.Name + " is used up"
		}
		return "its quota is used up"
	case scaling.ReasonMaxInstances:
		limit := "max_instances"
		if most := int64(f.Spec.MaxInstances); most == 0 || f.Status.MaxSize > 0 && f.Status.MaxSize < most {
			limit = "the limit of its plugin"
		}
		return fmt.Sprintf("it has %d of at most %d instances (%s)", f.Status.Instances, f.Status.Limit, limit)
	case scaling.ReasonPreemptive:
		return "it adds instances only ahead of tasks (preemptive_mode)"
	case scaling.ReasonThrottle:
		return "scale_throttle delays more instances"
	default:
		return "it requests no more instances: " + string(held)
	}
}

// comingInstances names the instances that are not ready yet, with the time since
// their request, the oldest first.
func comingInstances(fleet string, instances []run.FleetInstance, now time.Time) []string {
	verbs := map[run.InstanceState]string{
		run.InstanceRequested: "is requested", run.InstanceCreating: "is being created", run.InstanceBootstrapping: "is booting",
	}
	var parts []string
	more := 0
	for _, i := range instances {
		verb := verbs[i.State]
		switch {
		case verb == "":
		case len(parts) == namedInstances:
			more++
		default:
			parts = append(parts, fmt.Sprintf("instance %d of fleet %s %s (%s)", i.Number, fleet, verb, formatAge(now.Sub(i.RequestedAt))))
		}
	}
	if more > 0 {
		parts[len(parts)-1] += fmt.Sprintf(" and %d more", more)
	}
	return parts
}

// formatAge formats how long something has lasted, in its greatest unit.
func formatAge(d time.Duration) string {
	switch d = max(0, d); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

// pluginError is how the fleet worker writes the error of a call of a plugin.
var pluginError = regexp.MustCompile(`(the plugin refused: )?\b[A-Z][A-Za-z]+: plugin error: `)

// pluginAnswer returns an error of a fleet with the words of its plugin marked as
// such.
func pluginAnswer(text string) string {
	return pluginError.ReplaceAllLiteralString(text, "the plugin answered: ")
}

// withoutCredentials hides the credentials of a fleet's configuration, which its
// plugin may repeat in a message.
func withoutCredentials(s run.FleetSpec, text string) string {
	return mask.NewSet(s.Credentials()).String(text)
}
