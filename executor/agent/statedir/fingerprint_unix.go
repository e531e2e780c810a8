//go:build unix

package statedir

import (
	"os"
	"strconv"
	"syscall"
)

// inodeOf returns the inode number of a file, which a copy does not share.
func inodeOf(info os.FileInfo) (string, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	return strconv.FormatUint(stat.Ino, 10), true
}
