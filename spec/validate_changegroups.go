package spec

import (
	"slices"

	"github.com/drover-run/drover/run"
)

// checkChangeGroups checks the change groups of a run.
func checkChangeGroups(l *faultList, s *run.Spec) {
	names := newChangeGroupNames(l, "changegroups", len(s.ChangeGroups))
	for i, name := range items(l, s.ChangeGroups) {
		names.add(run.Path("changegroups").Index(i), name)
	}
	if n := len(s.ChangeGroupsOfTasks()); n > run.MaxChangeGroups {
		l.add("tasks", run.FaultOverLimit, "the tasks name %d different change groups; the limit is %d", n, run.MaxChangeGroups)
	}
}

// unitsRange is the fault of units out of their range.
const unitsRange = "it is %d; it must be 1 to %d"

// checkTaskChangeGroups checks the change groups of a task. ofRun are those of its run.
func checkTaskChangeGroups(l *faultList, task run.Path, t *run.TaskSpec, ofRun []string) {
	if len(t.ChangeGroups) == 0 {
		return
	}
	p := task.Key("changegroups")
	if t.Finally {
		l.add(p, run.FaultContradiction, "a finally task also runs after a stop, which waits for no slot")
	}
	names := newChangeGroupNames(l, p, len(t.ChangeGroups))
	for i, g := range items(l, t.ChangeGroups) {
		at := p.Index(i)
		names.add(at.Key("name"), g.Name)
		if _, ofPath := run.ChangeGroupPath(g.Name); ofPath {
			l.add(at.Key("name"), run.FaultBadValue, "the change groups of paths limit runs and not tasks")
		}
		if slices.Contains(ofRun, g.Name) {
			l.add(at.Key("name"), run.FaultContradiction, "the run has a slot of the change group %s already, and its task could wait for it for ever", quote(g.Name))
		}
		if g.Units < 0 || g.Units > run.MaxUnits {
			l.add(at.Key("units"), run.FaultOutOfRange, unitsRange, g.Units, run.MaxUnits)
		}
	}
}

// changeGroupNames checks the names of one list of change groups.
type changeGroupNames struct {
	l    *faultList
	seen map[string]bool
}

func newChangeGroupNames(l *faultList, p run.Path, n int) *changeGroupNames {
	if n > run.MaxChangeGroups {
		l.add(p, run.FaultOverLimit, "there are %d change groups; the limit is %d", n, run.MaxChangeGroups)
	}
	return &changeGroupNames{l: l, seen: make(map[string]bool)}
}

func (c *changeGroupNames) add(p run.Path, name string) {
	if fault := run.CheckChangeGroupName(name); fault != "" {
		c.l.add(p, run.FaultBadFormat, "%s", fault)
	} else if c.seen[name] {
		c.l.add(p, run.FaultDuplicate, "the change group %s is named twice", quote(name))
	}
	c.seen[name] = true
}
