//go:build !unix

package archive

import "io/fs"

// inode names a file, whatever names it has.
type inode struct{}

func inodeOf(fs.FileInfo) (inode, bool) { return inode{}, false }

func hasHoles(fs.FileInfo) bool { return false }
