package spec

import "github.com/drover-run/drover/run"

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
