package spec

import (
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// ValidateSchedule returns all faults of the specification of a schedule at the
// time now.
func ValidateSchedule(s run.ScheduleSpec, now time.Time) []run.Fault {
	l := newFaultList()
	if !run.ValidName(s.Name) {
		l.add("name", run.FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", quote(s.Name), run.MaxNameLength)
	}
	if s.Spec == nil {
		l.add("spec", run.FaultRequired, "a schedule has the specification of its runs")
	} else {
		l.faults = append(l.faults, Under("spec", ValidateRun(s.ScheduledSpec(time.Time{})))...)
	}
	checkTimes(l, s, now)
	if s.Jitter < 0 {
		l.add("jitter", run.FaultOutOfRange, "%s is negative", s.Jitter.Std())
	}
	if !s.StartAt.IsZero() && !s.EndAt.IsZero() && s.EndAt.Before(s.StartAt) {
		l.add("end_at", run.FaultContradiction, "it ends before it starts")
	}
	checkEnum(l, "overlap", s.Overlap, run.Overlaps()...)
	if w := s.CatchupWindow.Std(); w != 0 && w < run.MinCatchupWindow {
		l.add("catchup_window", run.FaultOutOfRange, "it is %s; it must be at least %s", w, run.MinCatchupWindow)
	}
	l.faults = append(l.faults, ValidateNote(s.Note)...)
	return l.faults
}

func checkTimes(l *faultList, s run.ScheduleSpec, now time.Time) {
	switch n := len(s.Cron) + len(s.Intervals); {
	case n == 0:
		l.add("", run.FaultRequired, "a schedule has times: cron or intervals")
	case n > run.MaxScheduleTimes:
		l.add("cron", run.FaultOverLimit, "there are %d cron expressions and intervals; the limit is %d", n, run.MaxScheduleTimes)
		return
	}
	for i, c := range s.Cron {
		path := run.Path("cron").Index(i)
		switch {
		case strings.TrimSpace(c) == "":
			l.add(path, run.FaultRequired, "an expression is not empty")
		case len(c) > run.MaxCronLength:
			l.add(path, run.FaultOverLimit, "the expression has %d bytes; the limit is %d", len(c), run.MaxCronLength)
		}
		checkText(l, path, c)
	}
	for i, v := range s.Intervals {
		path := run.Path("intervals").Index(i)
		if v.Every.Std() < run.MinInterval {
			l.add(path.Key("every"), run.FaultOutOfRange, "it is %s; it must be at least %s", v.Every.Std(), run.MinInterval)
		}
		if v.Offset < 0 || v.Offset > 0 && v.Offset >= v.Every {
			l.add(path.Key("offset"), run.FaultOutOfRange, "it is %s; it must be within the interval", v.Offset.Std())
		}
	}
	checkText(l, "timezone", s.Timezone)
	if len(s.Timezone) > run.MaxNameLength {
		l.add("timezone", run.FaultOverLimit, "it has %d bytes; the limit is %d", len(s.Timezone), run.MaxNameLength)
		return
	}
	checkCron(l, s, now)
}

// ValidateNote returns the faults of the note of a schedule.
func ValidateNote(note string) []run.Fault {
	l := newFaultList()
	if len(note) > run.MaxNoteLength {
		l.add("note", run.FaultOverLimit, "the note has %d bytes; the limit is %d", len(note), run.MaxNoteLength)
	}
	checkText(l, "note", note)
	return l.faults
}

// ValidateBackfill returns the faults of a backfill at the time now.
func ValidateBackfill(b run.Backfill, now time.Time) []run.Fault {
	l := newFaultList()
	for path, at := range map[run.Path]time.Time{"from": b.From, "to": b.To} {
		switch {
		case at.IsZero():
			l.add(path, run.FaultRequired, "a backfill has two bounds")
		case at.After(now):
			l.add(path, run.FaultOutOfRange, "%s has not come yet", at.UTC().Format(time.RFC3339))
		}
	}
	slices.SortFunc(l.faults, func(a, b run.Fault) int { return strings.Compare(a.Path, b.Path) })
	if b.To.Before(b.From) {
		l.add("to", run.FaultContradiction, "it ends before it begins")
	}
	checkEnum(l, "overlap", b.Overlap, run.Overlaps()...)
	return l.faults
}

// ValidateOverlap returns the faults of the overlap policy of a trigger.
func ValidateOverlap(o run.Overlap) []run.Fault {
	l := newFaultList()
	checkEnum(l, "overlap", o, run.Overlaps()...)
	return l.faults
}

// Under returns faults with their paths prefixed by path.
func Under(path run.Path, faults []run.Fault) []run.Fault {
	under := slices.Clone(faults)
	for i := range under {
		switch p := under[i].Path; {
		case p == "":
			under[i].Path = string(path)
		case p[0] == '[':
			under[i].Path = string(path) + p
		default:
			under[i].Path = string(path) + "." + p
		}
	}
	return under
}
