package spec

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-run/drover/run"
)

// ReadSchedule reads a schedule. It fails like Read; faults of the
// specification in it have their paths under spec. What it says is not
// checked.
func ReadSchedule(data []byte, format Format) (*run.ScheduleSpec, error) {
	root, err := parse(data, format)
	if err != nil {
		return nil, err
	}
	d := newDecoder(nil)
	s := d.schedule(root)
	if len(d.faults) > 0 {
		err := invalid(d.faults)
		err.Message = strings.Replace(err.Message, "the specification", "the schedule", 1)
		return nil, err
	}
	return s, nil
}

// LocateSchedule is Locate for the faults of a schedule.
func LocateSchedule(faults []run.Fault, data []byte, format Format) []run.Fault {
	root, err := parse(data, format)
	if err != nil {
		return faults
	}
	faults = slices.Clone(faults)
	d := newDecoder(nil)
	d.lines = make(map[run.Path]int)
	d.schedule(root)
	d.locate(faults)
	return faults
}

func (d *decoder) schedule(root *yaml.Node) *run.ScheduleSpec {
	s := new(run.ScheduleSpec)
	root = resolve(root)
	if root.Kind != yaml.MappingNode {
		d.fault("", root.Line, run.FaultWrongType, "%s where a schedule, which is a map, is wanted", describe(root))
		return s
	}
	d.note("", root.Line)
	d.object("", root, reflect.ValueOf(s).Elem())
	return s
}

// time reads a time of RFC 3339.
func (d *decoder) time(p run.Path, n *yaml.Node, to *time.Time) {
	if !isString(n) {
		d.fault(p, n.Line, run.FaultWrongType, "%s where a time such as 2026-01-31T15:04:05Z is wanted", describe(n))
		return
	}
	at, err := time.Parse(time.RFC3339, n.Value)
	if err != nil {
		d.fault(p, n.Line, run.FaultBadFormat, "%s is not a time such as 2026-01-31T15:04:05Z", quote(n.Value))
		return
	}
	*to = at.UTC()
}
