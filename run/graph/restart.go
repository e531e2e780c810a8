package graph

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// Kept decides which tasks of a restarted run keep their results, and why the others run:
// kept are tasks that ended with a status that may be kept, that have no reason to run, and
// that depend, directly or through others, on no task that runs again. Skipped tasks are never
// kept: whether they are skipped again follows from the others. Nor are finally tasks.
//
// nodes are of the new run's plan. tasks has its tasks by number; the reason of those that
// must run is set. status has the final status of each task in the old run, by its number in
// the new run, and StatusNotStarted for a task that the old run did not have. Exactly one of
// from and named is set, as in RestartRequest. Errors: invalid (a task that does not exist),
// wrong_phase (nothing to run again).
func Kept(nodes []run.Node, status []run.Status, tasks []run.RestartTask, from run.RestartFrom, named []string) ([]run.RestartTask, error) {
	out := slices.Clone(tasks)
	if from == run.RestartStart {
		for i := range out {
			out[i].Reason = cmp.Or(out[i].Reason, run.RestartFromStart)
		}
		return out, nil
	}
	requested, err := findRequested(tasks, named)
	if err != nil {
		return nil, err
	}
	runs := false
	for i := range out {
		if out[i].Reason == "" {
			out[i].Reason = reasonOf(status[i], from, requested[i])
		}
		runs = runs || out[i].Reason != ""
	}
	if from == run.RestartFailed && !runs {
		return nil, run.Errorf(run.CodeWrongPhase, "there is no task to run: none failed or was stopped")
	}
	addDependents(nodes, out)
	for _, n := range nodes { // finally tasks follow the tasks that run again
		for i := n.First; n.Finally && i < n.First+n.Width; i++ {
			out[i].Reason = cmp.Or(out[i].Reason, run.RestartFinally)
		}
	}
	for i := range out {
		out[i].Kept = out[i].Reason == ""
	}
	return out, nil
}

// reasonOf returns why a task runs again that has this status in the old run, "" if it does
// not by itself.
func reasonOf(s run.Status, from run.RestartFrom, requested bool) run.RestartReason {
	switch s {
	case run.StatusFailed, run.StatusStopped:
		switch {
		case from == run.RestartFailed && s == run.StatusFailed:
			return run.RestartTaskFailed
		case from == run.RestartFailed:
			return run.RestartTaskStopped
		}
	case run.StatusCancelled, run.StatusNotStarted, run.StatusWaitingApproval, run.StatusWaitingChangeGroup, run.StatusQueued, run.StatusRunning:
		return run.RestartNotRun
	case run.StatusSkipped:
		if !requested {
			return run.RestartSkipped
		}
	case run.StatusSuccess:
	}
	if requested {
		return run.RestartRequested
	}
	return ""
}

// findRequested reports for each task whether it is requested: by its own name, or with all
// tasks of an expansion by the name before its suffix.
func findRequested(tasks []run.RestartTask, named []string) ([]bool, error) {
	requested := make([]bool, len(tasks))
	found := make(map[string]bool, len(named))
	for _, w := range named {
		found[w] = false
	}
	for i, t := range tasks {
		base, _, _ := strings.Cut(t.Name, "[")
		for _, n := range []string{t.Name, base} {
			if _, ok := found[n]; ok {
				requested[i], found[n] = true, true
			}
		}
	}
	var faults []run.Fault
	for i, w := range named {
		if found[w] {
			continue
		}
		if len(faults) == run.MaxFaults {
			faults = append(faults, run.Fault{Code: run.FaultTooMany, Detail: "there are more faults than are listed here"})
			break
		}
		faults = append(faults, run.Fault{Path: string(run.Path("tasks").Index(i)), Code: run.FaultBadValue, Detail: "the run has no task " + w})
	}
	if len(faults) > 0 {
		return nil, run.InvalidError(faults[0].Detail, faults)
	}
	return requested, nil
}

// addDependents gives a reason to all tasks of nodes that depend on a node with a task that
// runs, directly or through others. Skipped tasks do not count: most are skipped again. Nodes may
// be in any order.
func addDependents(nodes []run.Node, tasks []run.RestartTask) {
	dependents := make([][]int, len(nodes))
	var open []int
	for i, n := range nodes {
		for _, e := range n.Depends {
			dependents[e.Node] = append(dependents[e.Node], i)
		}
		if slices.ContainsFunc(tasks[n.First:n.First+n.Width], func(t run.RestartTask) bool { return t.Reason != "" && t.Reason != run.RestartSkipped }) {
			open = append(open, i)
		}
	}
	reached := make([]bool, len(nodes))
	for len(open) > 0 {
		node := open[0] // the nearest first: it is the detail of those that depend on several
		open = open[1:]
		for _, d := range dependents[node] {
			if reached[d] {
				continue
			}
			reached[d] = true
			open = append(open, d)
			for i := nodes[d].First; i < nodes[d].First+nodes[d].Width; i++ {
				if tasks[i].Reason == "" || tasks[i].Reason == run.RestartSkipped {
					tasks[i].Reason, tasks[i].Detail = run.RestartDependency, nodes[node].Name
				}
			}
		}
	}
}

// KeptStatuses returns Plan.Kept: a byte a task as in Graph.Statuses, nil if
// nothing is kept.
func KeptStatuses(status []run.Status, tasks []run.RestartTask) []byte {
	if !slices.ContainsFunc(tasks, func(t run.RestartTask) bool { return t.Kept }) {
		return nil
	}
	out := make([]byte, len(status))
	for task, s := range status {
		out[task] = run.StatusNotStarted.Byte()
		if tasks[task].Kept {
			out[task] = s.Byte()
		}
	}
	return out
}
