//go:build unix && !linux

package shim

const adoptsOrphans = false

// adoptOrphans does nothing: no such thing here. What leaves its process group
// is not found again.
func adoptOrphans() {}

func descendants() []int { return nil }
