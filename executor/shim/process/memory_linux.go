package process

import "syscall"

// Magic numbers of file systems in memory, see statfs(2).
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

// InMemory reports whether the files of a directory stay in memory, and reach no
// disk other than the host's swap.
func InMemory(dir string) bool {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return false
	}
	kind := uint32(s.Type)
	return kind == tmpfsMagic || kind == ramfsMagic
}
