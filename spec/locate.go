package spec

import (
	"slices"

	"github.com/drover-run/drover/run"
)

// Locate returns faults with the lines of their places in a specification,
// for those that have none: faults that somebody else found in it. Where the
// specification cannot be read they are returned as they are.
func Locate(faults []run.Fault, data []byte, format Format) []run.Fault {
	root, err := parse(data, format)
	if err != nil {
		return faults
	}
	faults = slices.Clone(faults)
	locate(faults, root)
	return faults
}
