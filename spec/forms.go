package spec

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/suggest"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// maxMerges is the greatest depth of merge keys.
const maxMerges = 10

// entry is one key of a map with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries returns the entries of a map, including merged ones, in their order.
// Of a duplicate key it returns the first.
func (d *decoder) entries(p run.Path, n *yaml.Node) []entry {
	out := make([]entry, 0, len(n.Content)/2)
	seen := make(map[string]int, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), n.Content[i+1]
		if d.stop() || !d.charge(key) {
			return nil
		}
		if key.Kind != yaml.ScalarNode {
			d.fault(p, key.Line, run.FaultWrongType, "%s where a key, which is a string, is expected", describe(key))
			continue
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		line := n.Content[i].Line
		if before, ok := seen[key.Value]; ok {
			d.fault(p.Key(key.Value), line, run.FaultDuplicate, "%s is there already, in line %d", quote(key.Value), before)
			continue
		}
		seen[key.Value] = line
		out = append(out, entry{key: key.Value, line: line, value: value})
	}
	for _, m := range merged {
		out = d.merge(p, m, out, seen, 0)
	}
	return out
}

// merge appends the entries of a merge key. Entries of the map itself, and of
// earlier merges, take precedence.
func (d *decoder) merge(p run.Path, n *yaml.Node, out []entry, seen map[string]int, depth int) []entry {
	n = resolve(n)
	if !d.charge(n) {
		return out
	}
	if depth > maxMerges {
		d.fault(p, n.Line, run.FaultOverLimit, "merge keys refer to each other more than %d times", maxMerges)
		return out
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if d.stop() {
				break
			}
			out = d.merge(p, item, out, seen, depth+1)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content) && !d.stop(); i += 2 {
			key := resolve(n.Content[i])
			if !d.charge(key) {
				break
			}
			if key.ShortTag() == "!!merge" {
				out = d.merge(p, n.Content[i+1], out, seen, depth+1)
				continue
			}
			if _, ok := seen[key.Value]; ok || key.Kind != yaml.ScalarNode {
				continue
			}
			seen[key.Value] = key.Line
			out = append(out, entry{key: key.Value, line: key.Line, value: n.Content[i+1]})
		}
	default:
		d.fault(p, n.Line, run.FaultWrongType, "%s where a map to merge is expected", describe(n))
	}
	return out
}

func (d *decoder) duration(p run.Path, n *yaml.Node, to *run.Duration) {
	if !isString(n) {
		d.fault(p, n.Line, run.FaultWrongType, "%s where a duration such as 90s or 1h30m is expected", describe(n))
		return
	}
	v, err := time.ParseDuration(n.Value)
	if err != nil {
		d.fault(p, n.Line, run.FaultBadFormat, "%s is not a duration such as 90s or 1h30m", quote(n.Value))
		return
	}
	if strings.HasPrefix(n.Value, "-") {
		d.fault(p, n.Line, run.FaultOutOfRange, "%s is negative", quote(n.Value))
		return
	}
	*to = run.Duration(v)
}

// approval accepts true, false or a map, in which one approver is the default.
func (d *decoder) approval(p run.Path, n *yaml.Node, v reflect.Value) {
	if n.Kind == yaml.MappingNode {
		d.object(p, n, v)
		if a, ok := reflect.TypeAssert[*run.Approval](v.Addr()); ok && a.Approvers == 0 {
			a.Approvers = 1
		}
		return
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		d.fault(p, n.Line, run.FaultWrongType, "%s where true, false or {approvers: 2} is expected", describe(n))
		return
	}
	if strings.EqualFold(n.Value, "true") {
		v.Set(reflect.ValueOf(run.Approval{Approvers: 1}))
	}
}

// matrix reads the axes of a matrix, and include and exclude beside them.
func (d *decoder) matrix(p run.Path, n *yaml.Node, to *run.Matrix) {
	for _, e := range d.entries(p, n) {
		if d.stop() {
			return
		}
		at := p.Key(e.key)
		d.note(at, e.line)
		switch e.key {
		case run.MatrixInclude, run.MatrixExclude:
			items := &to.Include
			if e.key == run.MatrixExclude {
				items = &to.Exclude
			}
			if !null(e.value) {
				d.value(at, e.value, reflect.ValueOf(items).Elem(), field{})
			}
		default:
			var values []string
			if !null(e.value) { // checkMatrix reports an empty axis
				d.value(at, e.value, reflect.ValueOf(&values).Elem(), field{loose: true})
			}
			if to.Axes == nil {
				to.Axes = make(map[string][]string)
			}
			to.Axes[e.key] = values
		}
	}
}

// failFast accepts true, false or what happens to running tasks in a map.
func (d *decoder) failFast(p run.Path, n *yaml.Node, v reflect.Value) {
	if n.Kind == yaml.MappingNode {
		before := len(d.faults)
		d.object(p, n, v)
		if v.IsZero() && len(d.faults) == before {
			d.fault(p.Key("running"), n.Line, run.FaultRequired, "say what happens to running tasks: %s or %s", run.FailFastStop, run.FailFastContinue)
		}
		return
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		d.fault(p, n.Line, run.FaultWrongType, "%s where true, false or {running: %s} is expected", describe(n), run.FailFastContinue)
		return
	}
	if strings.EqualFold(n.Value, "true") {
		v.Set(reflect.ValueOf(run.FailFast{Running: run.FailFastStop}))
	}
}

// foreach accepts a list, or a list and the least number of its items in a map.
func (d *decoder) foreach(p run.Path, n *yaml.Node, to *run.Foreach, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		to.List = d.text(p, n, false)
		return
	}
	before := len(d.faults)
	d.object(p, n, v)
	if to.List == "" && len(d.faults) == before {
		d.fault(p.Key("list"), n.Line, run.FaultRequired, `name the list: {list: '{{ output "task" "key" }}', min: 1}`)
	}
}

// shell accepts the name of a shell instead of a list.
func (d *decoder) shell(p run.Path, n *yaml.Node, to *run.Shell) {
	names := run.ShellNames()
	known, ok := run.NamedShell(n.Value)
	if ok {
		*to = known
		return
	}
	hint := "; for another program write a list such as [" + run.DefaultShell()[0] + ", -e]"
	if words := strings.Fields(n.Value); len(words) > 1 {
		hint = "; write a program and its arguments as a list: [" + strings.Join(words, ", ") + "]"
	} else if s := suggest.Nearest(n.Value, names); s != "" {
		hint = "; did you mean " + quote(s) + "?"
	}
	d.fault(p, n.Line, run.FaultBadValue, "%s is none of %s%s", quote(n.Value), strings.Join(names, ", "), hint)
}

// raw returns a value as JSON, for fields that are stored unchanged.
func (d *decoder) raw(p run.Path, n *yaml.Node) json.RawMessage {
	b, err := json.Marshal(d.plain(p, n, 0))
	if err != nil {
		d.fault(p, n.Line, run.FaultBadValue, "it cannot be written as JSON")
		return json.RawMessage("null")
	}
	return b
}

func (d *decoder) plain(p run.Path, n *yaml.Node, depth int) any {
	n = resolve(n)
	if !d.charge(n) {
		return nil
	}
	if depth > maxDepth {
		d.fault(p, n.Line, run.FaultOverLimit, "it is nested deeper than %d", maxDepth)
		d.aborted = true
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any)
		for _, e := range d.entries(p, n) {
			if d.stop() {
				return nil
			}
			out[e.key] = d.plain(p, e.value, depth+1)
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			if d.stop() {
				return nil
			}
			out = append(out, d.plain(p, item, depth+1))
		}
		return out
	default:
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
	}
	return n.Value
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func null(n *yaml.Node) bool {
	n = resolve(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// isString reports whether n is a string. A date counts as one: YAML
// distinguishes it from a string, a specification does not.
func isString(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	tag := n.ShortTag()
	return tag == "!!str" || tag == "!!timestamp" || tag == "!!merge"
}

// describe returns the kind of a node. It never shows a string, which may be a
// misplaced secret.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch tag := n.ShortTag(); tag {
		case "!!null":
			return "nothing"
		case "!!bool", "!!int", "!!float":
			return "an unquoted " + map[string]string{"!!bool": "bool", "!!int": "number", "!!float": "number"}[tag]
		case "!!str", "!!timestamp", "!!merge":
			return "a string"
		default:
			return "a value with the tag " + quote(tag)
		}
	default:
		return "something else"
	}
}

// quote returns s quoted, and shortened if it is long.
func quote(s string) string {
	const maxLen = 60
	return strconv.Quote(truncate.String(s, maxLen, "…"))
}
