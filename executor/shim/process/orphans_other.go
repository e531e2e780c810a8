//go:build unix && !linux

package process

const adoptsOrphans = false

// adoptOrphans does nothing: this system has no subreapers. Processes that leave
// their process group are not found again.
func adoptOrphans() {}

func descendants() []int { return nil }
