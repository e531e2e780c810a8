package shim

import "syscall"

// What statfs calls file systems that are memory.
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

// InMemory reports whether what is written to a directory stays in memory, and
// gets to no disk but that of the host's swap.
func InMemory(dir string) bool {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return false
	}
	kind := uint32(s.Type)
	return kind == tmpfsMagic || kind == ramfsMagic
}
