package run

// ShimOrder is what the shim gets, once and whole, before any step runs: how
// to run the steps of one task inside its environment.
type ShimOrder struct {
	Version    int        `json:"v"` // see OrderVersion
	FirstFrame int64      `json:"first_frame"`
	Definition Definition `json:"definition"`
	// User is the user of the steps where the definition names none (the
	// image's own); "" means the shim's user.
	User string `json:"user,omitempty"`
	// WorkingDir is used where the definition names none.
	WorkingDir string `json:"working_dir,omitempty"`
	// BaseEnvironment lies below the definition's environment: what the
	// image, or the host driver, gives.
	BaseEnvironment map[string]string `json:"base_environment,omitempty"`
}

// OrderVersion returns the version of the order of a task: the oldest that a
// shim must know to run all of its steps. It is 1, and 2 where steps move
// archives.
func OrderVersion(d *Definition) int {
	for i := range d.Steps {
		if d.Steps[i].ArchiveType() != "" {
			return FrameAsk.Version()
		}
	}
	return FrameOutput.Version()
}
