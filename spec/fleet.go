package spec

import (
	"github.com/drover-run/drover/run"
)

// Fleet is a fleet in a file. Name is optional.
type Fleet struct {
	Name string `json:"name,omitempty"`
	run.FleetSpec
}

func fleets() resource {
	return resource{expected: "a fleet, which is a map, is", subject: "the fleet has"}
}

// ReadFleet reads a fleet. It fails like Read. It does not check the content.
func ReadFleet(data []byte, format Format) (*Fleet, error) {
	return readResource[Fleet](fleets(), data, format)
}

// LocateFleet is Locate for the faults of a fleet.
func LocateFleet(faults []run.Fault, data []byte, format Format) []run.Fault {
	return locateResource[Fleet](fleets(), faults, data, format)
}

func scalings() resource {
	return resource{expected: "scaling settings, which are a map, are", subject: "the scaling settings have"}
}

// ReadScaling reads the scaling settings of a fleet. It fails like Read. It
// does not check the content.
func ReadScaling(data []byte, format Format) (*run.Scaling, error) {
	return readResource[run.Scaling](scalings(), data, format)
}

// LocateScaling is Locate for the faults of scaling settings.
func LocateScaling(faults []run.Fault, data []byte, format Format) []run.Fault {
	return locateResource[run.Scaling](scalings(), faults, data, format)
}
