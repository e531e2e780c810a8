//go:build unix

package archive

import (
	"io/fs"
	"syscall"
)

// blockSize is the unit of st_blocks.
const blockSize = 512

// inode identifies a file independently of its names.
type inode struct{ device, number uint64 }

// inodeOf also reports whether the file has several names.
func inodeOf(info fs.FileInfo) (inode, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, false
	}
	return inode{uint64(s.Dev), uint64(s.Ino)}, s.Nlink > 1 //nolint:gosec,unconvert,nolintlint // the types differ between systems
}

// hasHoles reports whether a file takes less space than its size.
func hasHoles(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Blocks*blockSize < info.Size()
}
