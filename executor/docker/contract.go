package docker

// Where things lie in a main container. Steps may read these places, and none
// of them is part of an image.
const (
	toolDir    = "/.drover/bin"  // the shim, from the shared volume
	shimFile   = "drover-shim"   // in toolDir
	markerFile = ".complete"     // in toolDir, written after the shim
	taskDir    = "/.drover/task" // the shim's directory, an anonymous volume
)

// shimCommand is the main container's first process.
func shimCommand(nonce string) []string {
	return []string{toolDir + "/" + shimFile, "run", "--dir", taskDir, "--order", "-", "--stdout", nonce}
}
