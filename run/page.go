package run

import (
	"encoding/json"
	"slices"
)

// MaxPlanPage is the greatest size of a page of a plan as JSON, in bytes.
const MaxPlanPage = 64 << 10

// SplitPlan splits a plan into pages whose JSON has at most maxBytes each. The
// first page always exists and has the header fields; all pages have nodes. A
// node that is too large for one page continues on the next ones; MergePlans
// joins its parts.
func SplitPlan(p Plan, maxBytes int) []Plan {
	header := p
	header.Nodes = []Node{}
	pages := []Plan{header}
	size, empty := jsonSize(header), jsonSize(Plan{Nodes: []Node{}})
	for _, n := range p.Nodes {
		for _, part := range parts(n, maxBytes-empty) {
			partSize := jsonSize(part) + 1 // and a comma
			if size+partSize > maxBytes {
				pages = append(pages, Plan{Nodes: []Node{}})
				size = empty
			}
			last := &pages[len(pages)-1]
			last.Nodes = append(last.Nodes, part)
			size += partSize
		}
	}
	return pages
}

// MergePlans joins all pages of a plan, in order.
func MergePlans(pages []Plan) Plan {
	if len(pages) == 0 {
		return Plan{}
	}
	p := pages[0]
	p.Nodes = nil
	for _, page := range pages {
		for _, n := range page.Nodes {
			if last := len(p.Nodes) - 1; last >= 0 && p.Nodes[last].First == n.First {
				p.Nodes[last] = continued(p.Nodes[last], n)
				continue
			}
			p.Nodes = append(p.Nodes, n)
		}
	}
	return p
}

// parts splits a node whose JSON has more than maxBytes: the first part has all
// fields but the lists, each other part has a piece of one list.
func parts(n Node, maxBytes int) []Node {
	if jsonSize(n)+1 <= maxBytes {
		return []Node{n}
	}
	bare := Node{Name: n.Name, First: n.First, Width: n.Width}
	room := maxBytes - jsonSize(bare) - len(`,"x":[],"d":[],`)
	head := n
	head.Axes, head.Depends = nil, nil
	out := []Node{head}
	for _, axis := range n.Axes {
		room := room - jsonSize(Axis{Name: axis.Name, Values: []string{}})
		for values := range chunks(axis.Values, room) {
			part := bare
			part.Axes = []Axis{{Name: axis.Name, Values: values}}
			out = append(out, part)
		}
	}
	for edges := range chunks(n.Depends, room) {
		part := bare
		part.Depends = edges
		out = append(out, part)
	}
	return out
}

// chunks yields the list in pieces of at most maxBytes as JSON, or of one item.
func chunks[T any](list []T, maxBytes int) func(func([]T) bool) {
	return func(yield func([]T) bool) {
		start, size := 0, 0
		for i, item := range list {
			n := jsonSize(item) + 1
			if i > start && size+n > maxBytes {
				if !yield(list[start:i]) {
					return
				}
				start, size = i, 0
			}
			size += n
		}
		if start < len(list) {
			yield(list[start:])
		}
	}
}

// continued appends the lists of a part to those of the node.
func continued(n, part Node) Node {
	n.Depends = slices.Concat(n.Depends, part.Depends)
	n.Axes = slices.Clone(n.Axes)
	for _, axis := range part.Axes {
		if last := len(n.Axes) - 1; last >= 0 && n.Axes[last].Name == axis.Name {
			n.Axes[last].Values = slices.Concat(n.Axes[last].Values, axis.Values)
			continue
		}
		n.Axes = append(n.Axes, axis)
	}
	return n
}

func jsonSize(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0 // plans hold nothing that cannot be marshalled
	}
	return len(b)
}
