package spec

import (
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/drover-run/drover/run"
)

// ReadScaling reads the scaling settings of a fleet. It fails like Read. What
// they say is not checked.
func ReadScaling(data []byte, format Format) (*run.Scaling, error) {
	root, err := parse(data, format)
	if err != nil {
		return nil, err
	}
	d := newDecoder(nil)
	s := d.scaling(root)
	if len(d.faults) > 0 {
		err := invalid(d.faults)
		err.Message = strings.Replace(err.Message, "the specification has", "the scaling settings have", 1)
		return nil, err
	}
	return s, nil
}

// LocateScaling is Locate for the faults of scaling settings.
func LocateScaling(faults []run.Fault, data []byte, format Format) []run.Fault {
	root, err := parse(data, format)
	if err != nil {
		return faults
	}
	faults = slices.Clone(faults)
	d := newDecoder(nil)
	d.lines = make(map[run.Path]int)
	d.scaling(root)
	d.locate(faults)
	return faults
}

func (d *decoder) scaling(root *yaml.Node) *run.Scaling {
	s := new(run.Scaling)
	root = resolve(root)
	if root.Kind != yaml.MappingNode {
		d.fault("", root.Line, run.FaultWrongType, "%s where scaling settings, which are a map, are wanted", describe(root))
		return s
	}
	d.note("", root.Line)
	d.object("", root, reflect.ValueOf(s).Elem())
	return s
}
