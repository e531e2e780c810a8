package spec

import (
	"slices"

	"github.com/drover-run/drover/run"
)

// Locate returns faults with the lines of their paths in a specification, for
// faults without a line, which other checks found. If the specification cannot
// be read, it returns the faults unchanged.
func Locate(faults []run.Fault, data []byte, format Format) []run.Fault {
	root, err := parse(data, format)
	if err != nil {
		return faults
	}
	faults = slices.Clone(faults)
	locate(faults, root)
	return faults
}
