package shell

import "io/fs"

func isOwn(fs.FileInfo) bool { return true }
