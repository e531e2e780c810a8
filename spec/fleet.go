package spec

import (
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/drover-run/drover/run"
)

// Fleet is a fleet as a file has it: with its name, which may be left out.
type Fleet struct {
	Name string `json:"name,omitempty"`
	run.FleetSpec
}

// ReadFleet reads a fleet. It fails like Read. What it says is not checked.
func ReadFleet(data []byte, format Format) (*Fleet, error) {
	root, err := parse(data, format)
	if err != nil {
		return nil, err
	}
	d := newDecoder(nil)
	f := d.fleet(root)
	if len(d.faults) > 0 {
		err := invalid(d.faults)
		err.Message = strings.Replace(err.Message, "the specification", "the fleet", 1)
		return nil, err
	}
	return f, nil
}

// LocateFleet is Locate for the faults of a fleet.
func LocateFleet(faults []run.Fault, data []byte, format Format) []run.Fault {
	root, err := parse(data, format)
	if err != nil {
		return faults
	}
	faults = slices.Clone(faults)
	d := newDecoder(nil)
	d.lines = make(map[run.Path]int)
	d.fleet(root)
	d.locate(faults)
	return faults
}

func (d *decoder) fleet(root *yaml.Node) *Fleet {
	f := new(Fleet)
	root = resolve(root)
	if root.Kind != yaml.MappingNode {
		d.fault("", root.Line, run.FaultWrongType, "%s where a fleet, which is a map, is wanted", describe(root))
		return f
	}
	d.note("", root.Line)
	d.object("", root, reflect.ValueOf(f).Elem())
	return f
}
