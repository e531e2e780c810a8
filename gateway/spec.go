package gateway

import (
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// readSpec reads a specification of a media type of the contract. It is
// checked here too, and not by the service alone, because only the text tells
// the lines of its faults.
func readSpec(data []byte, media string) (*run.Spec, error) {
	format := spec.FormatYAML
	if media == mediaJSON {
		format = spec.FormatJSON
	}
	return spec.Validate(data, format)
}
