package spec

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/run"
)

func schedules() resource {
	return resource{expected: "a schedule, which is a map, is", subject: "the schedule has"}
}

// ReadSchedule reads a schedule. It fails like Read; faults of the
// specification in it have their paths under spec. It does not check the
// content.
func ReadSchedule(data []byte, format Format) (*run.ScheduleSpec, error) {
	return readResource[run.ScheduleSpec](schedules(), data, format)
}

// LocateSchedule is Locate for the faults of a schedule.
func LocateSchedule(faults []run.Fault, data []byte, format Format) []run.Fault {
	return locateResource[run.ScheduleSpec](schedules(), faults, data, format)
}

// time reads a time of RFC 3339.
func (d *decoder) time(p run.Path, n *yaml.Node, to *time.Time) {
	if !isString(n) {
		d.fault(p, n.Line, run.FaultWrongType, "%s where a time such as 2026-01-31T15:04:05Z is expected", describe(n))
		return
	}
	at, err := time.Parse(time.RFC3339, n.Value)
	if err != nil {
		d.fault(p, n.Line, run.FaultBadFormat, "%s is not a time such as 2026-01-31T15:04:05Z", quote(n.Value))
		return
	}
	*to = at.UTC()
}
