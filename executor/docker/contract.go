package docker

// Paths in a main container. Steps may read them, and no image contains them.
const (
	toolDir    = "/.drover/bin"  // the shim, from the shared volume
	shimFile   = "drover-shim"   // in toolDir
	markerFile = ".complete"     // in toolDir, written after the shim
	taskDir    = "/.drover/task" // the shim's directory, an anonymous volume
	// secretsDir is a tmpfs, mounted if the task has secret files.
	secretsDir = "/.drover/secrets"
)

// secretsOptions are the mount options of that tmpfs. The shim changes its
// permissions for the user of the steps. A gateway limits the secrets of a task
// to less than the size.
const secretsOptions = "rw,noexec,nosuid,nodev,mode=0700,size=64m" //nolint:gosec // no credentials

// helperCommand returns the command of a helper container.
func helperCommand(name string) []string {
	return []string{toolDir + "/" + shimFile, "helper", "--dir", taskDir, "--name", name}
}

// shimCommand returns the command of the main container's first process.
func shimCommand(nonce string) []string {
	return []string{toolDir + "/" + shimFile, "run", "--dir", taskDir, "--order", "-", "--stdout", nonce}
}
