package shim

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/drover-run/drover/run"
)

// ReadOrder reads one order and rejects a truncated one. It does not wait for the
// end of r.
func ReadOrder(r io.Reader) (run.ShimSpec, error) {
	var o run.ShimSpec
	if err := json.NewDecoder(r).Decode(&o); err != nil {
		return o, fmt.Errorf("read the order: %w", err)
	}
	switch {
	case o.Version < 1 || o.Version > run.NewestSpecVersion:
		return o, fmt.Errorf("the order has version %d, this shim supports 1 to %d", o.Version, run.NewestSpecVersion)
	case o.FirstFrame < 1:
		return o, fmt.Errorf("the order's first frame has number %d", o.FirstFrame)
	case len(o.Definition.Steps) == 0:
		return o, fmt.Errorf("the order of task %s has no steps", o.Definition.Key)
	}
	if len(o.Definition.Shell) == 0 {
		o.Definition.Shell = run.DefaultShell()
	}
	o.Definition.Steps = slices.Clone(o.Definition.Steps)
	for i := range o.Definition.Steps {
		s := &o.Definition.Steps[i]
		switch s.When {
		case "":
			s.When = run.WhenOnSuccess
		case run.WhenOnSuccess, run.WhenOnFailure, run.WhenAlways, run.WhenOnStop:
		default:
			return o, fmt.Errorf("step %d has the unknown condition %q", i+1, s.When)
		}
		switch s.Streams {
		case "", run.StreamsMerged, run.StreamsSplit:
		default:
			return o, fmt.Errorf("step %d has the unknown streams %q", i+1, s.Streams)
		}
	}
	return o, nil
}
