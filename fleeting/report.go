package fleeting

// Report describes a plugin and its capabilities.
type Report struct {
	Path         string     `json:"path"`
	Digest       string     `json:"digest"`            // SHA-256 of the binary
	Build        string     `json:"build,omitempty"`   // output of its version command
	Calls        []string   `json:"calls,omitempty"`   // that it serves; empty without reflection
	Missing      []string   `json:"missing,omitempty"` // calls of the protocol that it lacks
	Info         *Info      `json:"info,omitempty"`    // if it was initialised
	Instances    []Instance `json:"instances,omitempty"`
	Capabilities []string   `json:"capabilities,omitempty"`
}
