package graph

import (
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// Kept decides which tasks of a restarted run keep their results: tasks that
// ended with a status that may be kept and that depend, directly or through
// others, on no task that runs again. Skipped tasks are never kept: whether
// they are skipped again follows from the others. Nor are finally tasks.
//
// nodes are of the new run's plan. status has the final status of each task in the
// old run, by its number in the new run, and StatusNotStarted for a task that the old
// run did not have. Exactly one of from and tasks is set, as in RestartRequest.
// Errors: invalid (a task that does not exist), wrong_phase (nothing to run again).
func Kept(nodes []run.Node, status []run.Status, names func(task int) string, from run.RestartFrom, tasks []string) ([]bool, error) {
	keep := make([]bool, len(status))
	if from == run.RestartStart {
		return keep, nil
	}
	rerun, err := markRequested(status, names, tasks)
	if err != nil {
		return nil, err
	}
	for task, s := range status {
		switch s {
		case run.StatusSuccess:
			keep[task] = true
		case run.StatusFailed, run.StatusStopped:
			keep[task] = from != run.RestartFailed
			rerun[task] = rerun[task] || from == run.RestartFailed
		case run.StatusCancelled, run.StatusNotStarted, run.StatusWaitingApproval, run.StatusWaitingChangeGroup, run.StatusQueued, run.StatusRunning:
			rerun[task] = true
		case run.StatusSkipped:
		}
	}
	if from == run.RestartFailed && !slices.Contains(keep, false) {
		return nil, run.Errorf(run.CodeWrongPhase, "no task of the run failed or was stopped")
	}
	markDependents(nodes, rerun)
	markFinally(nodes, rerun)
	for task := range keep {
		keep[task] = keep[task] && !rerun[task]
	}
	return keep, nil
}

// markRequested marks the requested tasks: by their own name, or all tasks of an
// expansion by the name before its suffix.
func markRequested(status []run.Status, names func(int) string, required []string) ([]bool, error) {
	marked := make([]bool, len(status))
	found := make(map[string]bool, len(required))
	for _, w := range required {
		found[w] = false
	}
	for task := range status {
		name := names(task)
		base, _, _ := strings.Cut(name, "[")
		for _, n := range []string{name, base} {
			if _, ok := found[n]; ok {
				marked[task], found[n] = true, true
			}
		}
	}
	var faults []run.Fault
	for i, w := range required {
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
	return marked, nil
}

// markDependents marks all tasks of nodes that depend on a node with a marked task,
// directly or through others. Nodes may be in any order.
func markDependents(nodes []run.Node, marked []bool) {
	hit := make([]bool, len(nodes))
	for i, n := range nodes {
		hit[i] = slices.Contains(marked[n.First:n.First+n.Width], true)
	}
	dependents := make([][]int, len(nodes))
	for i, n := range nodes {
		for _, e := range n.Depends {
			dependents[e.Node] = append(dependents[e.Node], i)
		}
	}
	var open []int
	for i := range nodes {
		if hit[i] {
			open = append(open, i)
		}
	}
	reached := make([]bool, len(nodes))
	for len(open) > 0 {
		node := open[len(open)-1]
		open = open[:len(open)-1]
		for _, d := range dependents[node] {
			if reached[d] {
				continue
			}
			reached[d] = true
			open = append(open, d)
			for task := nodes[d].First; task < nodes[d].First+nodes[d].Width; task++ {
				marked[task] = true
			}
		}
	}
}

// markFinally marks all finally tasks: they follow the tasks that run again.
func markFinally(nodes []run.Node, marked []bool) {
	for _, n := range nodes {
		for task := n.First; n.Finally && task < n.First+n.Width; task++ {
			marked[task] = true
		}
	}
}

// KeptStatuses returns Plan.Kept: a byte a task as in Graph.Statuses, nil if
// nothing is kept.
func KeptStatuses(status []run.Status, keep []bool) []byte {
	if !slices.Contains(keep, true) {
		return nil
	}
	out := make([]byte, len(status))
	for task, s := range status {
		out[task] = run.StatusNotStarted.Byte()
		if keep[task] {
			out[task] = s.Byte()
		}
	}
	return out
}
