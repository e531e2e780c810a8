package spec

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/run"
)

// resource is a kind of file other than the specification of a run. Its fields
// are parts of messages.
type resource struct {
	expected string // "a fleet, which is a map, is"
	subject  string // "the fleet has"
}

// readResource reads a resource. It fails like Read. It does not check the
// content.
func readResource[T any](of resource, data []byte, format Format) (*T, error) {
	root, err := parse(data, format)
	if err != nil {
		return nil, err
	}
	d := newDecoder(nil)
	x := new(T)
	d.resource(of, root, reflect.ValueOf(x).Elem())
	if len(d.faults) > 0 {
		err := invalid(d.faults)
		err.Message = strings.Replace(err.Message, "the specification has", of.subject, 1)
		return nil, err
	}
	return x, nil
}

// locateResource is Locate for the faults of a resource.
func locateResource[T any](of resource, faults []run.Fault, data []byte, format Format) []run.Fault {
	root, err := parse(data, format)
	if err != nil {
		return faults
	}
	faults = slices.Clone(faults)
	d := newDecoder(nil)
	d.lines = make(map[run.Path]int)
	d.resource(of, root, reflect.ValueOf(new(T)).Elem())
	d.locate(faults)
	return faults
}

func (d *decoder) resource(of resource, root *yaml.Node, to reflect.Value) {
	root = resolve(root)
	if root.Kind != yaml.MappingNode {
		d.fault("", root.Line, run.FaultWrongType, "%s where %s expected", describe(root), of.expected)
		return
	}
	d.note("", root.Line)
	d.object("", root, to)
}
