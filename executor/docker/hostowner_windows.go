package docker

import "io/fs"

// ownerOf returns the user to whom a file belongs.
func ownerOf(fs.FileInfo) (id int, known bool) { return 0, false }
