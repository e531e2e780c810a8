package spec

import (
	"maps"
	"slices"

	"github.com/drover-run/drover/run"
)

// checkFinally rejects keys with which a finally task could keep a stopped run from its
// end, or would not be known when the run begins.
func checkFinally(l *faultList, p run.Path, t *run.TaskSpec) {
	if !t.Finally {
		return
	}
	if t.Approval.Approvers > 0 {
		l.add(p.Key("approval"), run.FaultContradiction, "a finally task also runs after a stop, which waits for no approval")
	}
	if t.Foreach.List != "" {
		l.add(p.Key("foreach"), run.FaultContradiction, "a finally task has no foreach: the task that would create the list may not have run; use a matrix, or a loop in the script")
	}
}

// checkFinallyDepend rejects dependencies between a finally task and another task.
func checkFinallyDepend(l *faultList, p run.Path, t, on *run.TaskSpec, name string) {
	switch {
	case on == nil || t.Finally == on.Finally:
	case t.Finally:
		l.add(p, run.FaultContradiction, "a finally task begins when all tasks without finally have ended, so it depends on finally tasks only; if depends on the outcome of %s, use if, as in tasks[%s].status", quote(name), quote(name))
	default:
		l.add(p, run.FaultContradiction, "%s has finally: it begins when all tasks without finally have ended, this one among them", quote(name))
	}
}

// checkOrdinary requires a task that is no finally task.
func checkOrdinary(l *faultList, s *run.Spec) {
	if len(s.Tasks) == 0 {
		return
	}
	for _, t := range s.Tasks {
		if t == nil || !t.Finally {
			return
		}
	}
	l.add("tasks", run.FaultRequired, "all tasks have finally: a run has at least one task without it")
}

// finallyLast orders tasks such that the finally tasks are the last, and returns how
// many others there are.
func finallyLast(s *run.Spec, names []string) int {
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case s.Tasks[a].Finally == s.Tasks[b].Finally:
			return 0
		case s.Tasks[b].Finally:
			return -1
		}
		return 1
	})
	if i := slices.IndexFunc(names, func(name string) bool { return s.Tasks[name].Finally }); i >= 0 {
		return i
	}
	return len(names)
}

// finallyTimeout returns Plan.FinallyTimeout: the cleanup timeouts of finally tasks that
// follow each other add up. names are in the order of the dependencies.
func finallyTimeout(s *run.Spec, names []string) run.Duration {
	ends := make(map[string]run.Duration)
	for _, name := range names {
		t := s.Tasks[name]
		if !t.Finally {
			continue
		}
		begins := run.Duration(0)
		for _, d := range t.Depends {
			begins = max(begins, ends[d.Task])
		}
		own := t.CleanupTimeout
		if own <= 0 {
			own = run.Duration(run.DefaultCleanupTimeout)
		}
		ends[name] = begins + own
	}
	return slices.Max(append(slices.Collect(maps.Values(ends)), 0))
}
