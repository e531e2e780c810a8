//go:build unix

package shell

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwn reports whether a file is this process' user's.
func isOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
