package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/suggest"
	"github.com/drover-run/drover/run"
)

// Bounds of an input with its aliases expanded. Without aliases no useful input
// comes near them: ten thousand tasks have some hundred thousand values.
const (
	maxExpanded = 2 * run.MaxRequestBytes // bytes of text
	maxNodes    = 1_000_000               // maps, lists, keys and values
)

// decoder fills the types of package run from a tree, by the names in their
// json tags, and records every fault. It leaves the zero value for an invalid
// value, so that indexes and names of other values stay correct.
type decoder struct {
	faults  []run.Fault
	aborted bool            // decoding has ended early; the content must not be checked
	done    <-chan struct{} // of the request; nil if the request cannot be cancelled
	extra   map[string]*string
	bytes   int // bytes of text that are left
	nodes   int // likewise
	fields  map[reflect.Type][]field
	lines   map[run.Path]int // recorded if not nil

	lint     bool        // texts are searched for templates that stay as they are
	warnings []run.Fault // likewise, at most run.MaxFaults
}

// field is one key of an object.
type field struct {
	name  string
	index []int
	// loose: a number or bool is accepted as text. So it is for a text that reads itself
	// from JSON, where it may be a number.
	loose bool
	// positive: 0 is not allowed, since it stands for a missing field.
	positive bool
	// allowsEmpty: the key has a meaning without a value too.
	allowsEmpty bool
	// expands is the kind of templates that are expanded in its texts.
	expands templates
}

func newDecoder(extra map[string]*string) *decoder {
	return &decoder{extra: extra, bytes: maxExpanded, nodes: maxNodes, fields: make(map[reflect.Type][]field)}
}

// document decodes the whole input.
func (d *decoder) document(root *yaml.Node) *run.Spec {
	s := new(run.Spec)
	root = resolve(root)
	if root.Kind != yaml.MappingNode {
		d.fault("", root.Line, run.FaultWrongType, "%s where a specification, which is a map, is expected", describe(root))
		d.aborted = true
		return s
	}
	d.note("", root.Line)
	d.object("", root, reflect.ValueOf(s).Elem())
	return s
}

func (d *decoder) fault(p run.Path, line int, code run.Code, format string, args ...any) {
	if len(d.faults) <= run.MaxFaults {
		d.faults = append(d.faults, run.Fault{Path: string(p), Line: line, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
}

// stop reports whether reading must end: it was aborted, the list of faults is
// full, or the request was cancelled.
func (d *decoder) stop() bool {
	select {
	case <-d.done:
		d.aborted = true
	default:
		d.aborted = d.aborted || len(d.faults) > run.MaxFaults
	}
	return d.aborted
}

func (d *decoder) note(p run.Path, line int) {
	if d.lines == nil {
		return
	}
	if _, ok := d.lines[p]; !ok {
		d.lines[p] = line
	}
}

// charge charges a node to the bounds, and reports whether they hold.
func (d *decoder) charge(n *yaml.Node) bool {
	d.nodes--
	d.bytes -= len(n.Value)
	enough := d.nodes >= 0 && d.bytes >= 0
	if !enough && !d.aborted {
		d.aborted = true
		d.fault("", n.Line, run.CodeTooLarge, "with its aliases written out it has more than %d values or %d bytes", maxNodes, maxExpanded)
	}
	return enough
}

// value decodes n into v. The caller decides whether null is allowed.
func (d *decoder) value(p run.Path, n *yaml.Node, v reflect.Value, f field) {
	n = resolve(n)
	if !d.charge(n) {
		return
	}
	d.checkTemplates(p, n, f.expands)
	switch to := v.Addr().Interface().(type) {
	case *run.Duration:
		d.duration(p, n, to)
		return
	case *time.Time:
		d.time(p, n, to)
		return
	case *run.Secret, *run.Amount:
		v.SetString(d.text(p, n, true))
		return
	case *json.RawMessage:
		*to = d.raw(p, n)
		return
	case *run.FailFast:
		d.failFast(p, n, v)
		return
	case *run.Approval:
		d.approval(p, n, v)
		return
	case *run.Matrix:
		if d.is(p, n, yaml.MappingNode) {
			d.matrix(p, n, to)
		}
		return
	case *run.Foreach:
		d.foreach(p, n, to, v)
		return
	case *run.Shell:
		if isString(n) {
			d.shell(p, n, to)
			return
		}
	case *run.TaskChangeGroup:
		if n.Kind == yaml.ScalarNode {
			to.Name = d.text(p, n, false)
			return
		}
	case *run.Depend:
		if n.Kind == yaml.ScalarNode {
			to.Task = d.text(p, n, false)
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(p, n, v.Elem(), f)
	case reflect.Struct:
		if d.is(p, n, yaml.MappingNode) {
			d.object(p, n, v)
		}
	case reflect.Map:
		if d.is(p, n, yaml.MappingNode) {
			d.table(p, n, v, f)
		}
	case reflect.Slice:
		if d.is(p, n, yaml.SequenceNode) {
			d.list(p, n, v, f)
		}
	case reflect.String:
		v.SetString(d.text(p, n, f.loose))
	case reflect.Bool:
		d.boolean(p, n, v)
	case reflect.Int, reflect.Int64:
		d.integer(p, n, v, f)
	case reflect.Float64:
		d.number(p, n, v, f)
	default:
		// No type of package run comes here: a test walks them all.
		d.fault(p, n.Line, run.CodeNotSupported, "it cannot be read")
	}
}

// object decodes a map whose keys are the fields of v.
func (d *decoder) object(p run.Path, n *yaml.Node, v reflect.Value) {
	fields := d.fieldsOf(v.Type())
	for _, e := range d.entries(p, n) {
		if d.stop() {
			return
		}
		at := p.Key(e.key)
		d.note(at, e.line)
		if to, ok := d.extra[e.key]; ok && p == "" {
			if null(e.value) {
				continue
			}
			*to = d.text(at, resolve(e.value), false)
			continue
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == e.key })
		if i < 0 {
			d.unknown(p, e, v.Type())
			continue
		}
		to := v.FieldByIndex(fields[i].index)
		// A field without a value counts as missing. The key of an archive step
		// still sets the type of the step.
		if null(e.value) {
			if fields[i].allowsEmpty {
				to.Set(reflect.New(to.Type().Elem()))
			}
			continue
		}
		d.value(at, e.value, to, fields[i])
		if g, ok := reflect.TypeAssert[*run.TaskChangeGroup](v.Addr()); ok && e.key == "units" && g.Units == 0 && resolve(e.value).ShortTag() == "!!int" {
			// It could not be told from missing units, which are one.
			d.fault(at, resolve(e.value).Line, run.FaultOutOfRange, unitsRange, g.Units, run.MaxUnits)
		}
	}
}

// unknown reports a key that type t does not have.
func (d *decoder) unknown(p run.Path, e entry, t reflect.Type) {
	fields := d.fieldsOf(t)
	known := make([]string, 0, len(fields)+len(d.extra))
	for _, f := range fields {
		known = append(known, f.name)
	}
	hint := d.foreignWord(t, e.key)
	if s := suggest.Nearest(e.key, known); hint == "" && s != "" {
		hint = fmt.Sprintf("did you mean %q?", s)
	}
	if hint != "" {
		hint = "; " + hint
	}
	d.fault(p.Key(e.key), e.line, run.FaultUnknownField, "there is no field %s here%s", quote(e.key), hint)
}

// table decodes a map with arbitrary keys.
func (d *decoder) table(p run.Path, n *yaml.Node, v reflect.Value, f field) {
	entries := d.entries(p, n)
	v.Set(reflect.MakeMapWithSize(v.Type(), len(entries)))
	elem := v.Type().Elem()
	for _, e := range entries {
		if d.stop() {
			return
		}
		at := p.Key(e.key)
		d.note(at, e.line)
		to := reflect.New(elem).Elem()
		// ValidateRun reports an empty task or axis.
		if kind := elem.Kind(); !null(e.value) || kind != reflect.Pointer && kind != reflect.Slice {
			d.value(at, e.value, to, field{loose: true, expands: f.expands})
		}
		v.SetMapIndex(reflect.ValueOf(e.key), to)
	}
}

func (d *decoder) list(p run.Path, n *yaml.Node, v reflect.Value, f field) {
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		if d.stop() {
			return
		}
		at := p.Index(i)
		d.note(at, item.Line)
		d.value(at, item, v.Index(i), field{loose: f.loose, expands: f.expands})
	}
}

// text returns the value of a string. If loose, it also returns any other
// scalar but null, as it was written.
func (d *decoder) text(p run.Path, n *yaml.Node, loose bool) string {
	switch tag := n.ShortTag(); {
	case isString(n):
		return n.Value
	case n.Kind != yaml.ScalarNode || !slices.Contains([]string{"!!int", "!!float", "!!bool"}, tag):
		hint := ""
		if tag == "!!null" {
			hint = `: write "" for an empty one`
		}
		d.fault(p, n.Line, run.FaultWrongType, "%s where a string is expected%s", describe(n), hint)
	case !loose:
		d.fault(p, n.Line, run.FaultWrongType, "%s where a string is expected: put it in quotes", describe(n))
	default:
		return n.Value
	}
	return ""
}

func (d *decoder) boolean(p run.Path, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		d.fault(p, n.Line, run.FaultWrongType, "%s where true or false is expected", describe(n))
		return
	}
	v.SetBool(strings.EqualFold(n.Value, "true"))
}

func (d *decoder) integer(p run.Path, n *yaml.Node, v reflect.Value, f field) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		d.fault(p, n.Line, run.FaultWrongType, "%s where a whole number is expected", describe(n))
		return
	}
	bits := 32 // nothing in a specification needs more
	if v.Kind() == reflect.Int64 {
		bits = 64
	}
	i, err := strconv.ParseInt(n.Value, 10, bits)
	switch {
	case err != nil:
		d.fault(p, n.Line, run.FaultOutOfRange, "%s is not a decimal number in the allowed range", quote(n.Value))
	case f.positive && i < 1:
		d.fault(p, n.Line, run.FaultOutOfRange, "it is %d; it must be at least 1", i)
	default:
		v.SetInt(i)
	}
}

func (d *decoder) number(p run.Path, n *yaml.Node, v reflect.Value, f field) {
	if tag := n.ShortTag(); n.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" {
		d.fault(p, n.Line, run.FaultWrongType, "%s where a number is expected", describe(n))
		return
	}
	x, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		d.fault(p, n.Line, run.FaultOutOfRange, "%s is not a decimal number in the allowed range", quote(n.Value))
		return
	}
	if f.positive && x < 1 {
		d.fault(p, n.Line, run.FaultOutOfRange, "it is %s; it must be at least 1", n.Value)
		return
	}
	v.SetFloat(x)
}

func (d *decoder) is(p run.Path, n *yaml.Node, kind yaml.Kind) bool {
	if n.Kind == kind {
		return true
	}
	want := "map"
	if kind == yaml.SequenceNode {
		want = "list"
	}
	d.fault(p, n.Line, run.FaultWrongType, "%s where a %s is expected", describe(n), want)
	return false
}

// fieldsOf returns the fields of a struct type in their order, including those
// of embedded structs.
func (d *decoder) fieldsOf(t reflect.Type) []field {
	if fields, ok := d.fields[t]; ok {
		return fields
	}
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous { // its fields are listed instead
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, field{
			name: name, index: f.Index,
			loose: slices.Contains([]reflect.Type{reflect.TypeFor[run.Resources](), reflect.TypeFor[run.Tmpfs]()}, t) || name == "user" ||
				t == reflect.TypeFor[run.Input]() && (name == "default" || name == "options") ||
				f.Type.Kind() == reflect.String && reflect.PointerTo(f.Type).Implements(reflect.TypeFor[json.Unmarshaler]()),
			allowsEmpty: slices.Contains(run.ArchiveStepTypes(), name),
			positive: t == reflect.TypeFor[run.Spec]() && name == "priority" ||
				slices.Contains([]string{"max_attempts", "approvers", "backoff_factor"}, name),
			expands: expandedIn(t, name),
		})
	}
	d.fields[t] = fields
	return fields
}
