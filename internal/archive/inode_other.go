//go:build !unix

package archive

import "io/fs"

// inode identifies a file independently of its names.
type inode struct{}

func inodeOf(fs.FileInfo) (inode, bool) { return inode{}, false }

func hasHoles(fs.FileInfo) bool { return false }
