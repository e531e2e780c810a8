//go:build unix

package shell

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwn reports whether a file belongs to this process's user.
func isOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
