package statedir

import "os"

// inodeOf returns nothing: Go exposes no file numbers on Windows.
func inodeOf(os.FileInfo) (string, bool) { return "", false }
