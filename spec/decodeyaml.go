package spec

import (
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/run"
)

// DecodeYAML reads YAML of any content into v, for inputs that are not a
// resource. It applies the bounds of a specification, so aliases cannot
// multiply the input. The error is a *run.Error: CodeUnreadable or
// CodeTooLarge.
func DecodeYAML(data []byte, v any) error {
	root, err := parse(data, FormatYAML)
	if err != nil {
		return err
	}
	d := newDecoder(nil)
	d.chargeAll(root, 0)
	if d.aborted {
		return run.Errorf(run.CodeTooLarge, "with its aliases written out the body has more than %d values or %d bytes, or is nested deeper than %d",
			maxNodes, maxExpanded, maxDepth)
	}
	if err := root.Decode(v); err != nil {
		return YAMLError(data, err, v)
	}
	return nil
}

// chargeAll charges a value and all values in it to the bounds.
func (d *decoder) chargeAll(n *yaml.Node, depth int) {
	n = resolve(n)
	d.aborted = d.aborted || depth > maxDepth
	if d.aborted || !d.charge(n) {
		return
	}
	for _, inner := range n.Content {
		d.chargeAll(inner, depth+1)
	}
}
