package spec

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/run"
)

// Resource is the content of a file with the fields of T, beside which it may have a name.
type Resource[T any] struct {
	Name string
	Spec T
}

// ReadResource reads a file of a kind, such as "pool", in which the required field has a
// value. It fails like Read. It does not check the content.
func ReadResource[T any](kind, required string, data []byte, format Format) (*Resource[T], error) {
	name := ""
	x, err := readResource[T](namedResource(kind, required, &name), data, format)
	if err != nil {
		return nil, err
	}
	return &Resource[T]{Name: name, Spec: *x}, nil
}

// LocateResource is Locate for the faults of a file that ReadResource has read.
func LocateResource[T any](kind string, faults []run.Fault, data []byte, format Format) []run.Fault {
	return locateResource[T](namedResource(kind, "", new(string)), faults, data, format)
}

func namedResource(kind, required string, name *string) resource {
	return resource{
		expected: "a " + kind + ", which is a map, is", subject: "the " + kind + " has",
		required: required, needed: "a " + kind + " needs it", extra: map[string]*string{"name": name},
	}
}

// resource is a kind of file other than the specification of a run. Some of its
// fields are parts of messages.
type resource struct {
	expected string             // "a fleet, which is a map, is"
	subject  string             // "the fleet has"
	required string             // field that has a value, "" for none
	needed   string             // "a pool needs it"
	extra    map[string]*string // fields beside those of the type, with their values
}

// readResource reads a resource. It fails like Read. It does not check the
// content.
func readResource[T any](of resource, data []byte, format Format) (*T, error) {
	root, err := parse(data, format)
	if err != nil {
		return nil, err
	}
	d := newDecoder(of.extra)
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
	d := newDecoder(of.extra)
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
	line, given := root.Line, of.required == ""
	for _, e := range newDecoder(nil).entries("", root) { // object has reported their faults
		if e.key == of.required {
			line, given = e.line, !null(e.value)
		}
	}
	if !given {
		d.fault(run.Path(of.required), line, run.FaultRequired, "%s", of.needed)
	}
}
