package fleeting

// Report says what a plugin is and can do.
type Report struct {
	Path         string     `json:"path"`
	Digest       string     `json:"digest"`            // SHA-256 of the binary
	Build        string     `json:"build,omitempty"`   // what its version command prints
	Calls        []string   `json:"calls,omitempty"`   // those that it serves; empty where it does not tell
	Missing      []string   `json:"missing,omitempty"` // calls of the protocol that it lacks
	Info         *Info      `json:"info,omitempty"`    // where it was initialised
	Instances    []Instance `json:"instances,omitempty"`
	Capabilities []string   `json:"capabilities,omitempty"`
}
