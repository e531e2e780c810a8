package docker

// Where things lie in a main container. Steps may read these places, and none
// of them is part of an image.
const (
	toolDir    = "/.drover/bin"  // the shim, from the shared volume
	shimFile   = "drover-shim"   // in toolDir
	markerFile = ".complete"     // in toolDir, written after the shim
	taskDir    = "/.drover/task" // the shim's directory, an anonymous volume
	// secretsDir is a tmpfs, where the task has secrets that are files.
	secretsDir = "/.drover/secrets"
)

// secretsOptions are those of that tmpfs. It is the shim's to open for the user
// of the steps; a gateway hands out less than the size.
const secretsOptions = "rw,noexec,nosuid,nodev,mode=0700,size=64m" //nolint:gosec // no credentials

// shimCommand is the main container's first process.
func shimCommand(nonce string) []string {
	return []string{toolDir + "/" + shimFile, "run", "--dir", taskDir, "--order", "-", "--stdout", nonce}
}
