package statedir

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/run"
)

// fingerprintName is the file beside the journal with the fingerprint of its host.
const fingerprintName = "place"

// machineIDFile names the host, as machine-id(5) has it.
const machineIDFile = "/etc/machine-id"

// checkFingerprint refuses a state dir that was copied, to another host or on this one.
// Two processes with one journal would each treat the other's tasks as their own
// and, finding no environments, as vanished. Unknown parts of the fingerprint,
// without a machine id or inodes, are not compared. Errors: CodeConflict.
func checkFingerprint(dir string) error {
	current := hostFingerprint(dir)
	path := filepath.Join(dir, journalName, fingerprintName)
	previous, err := readOrMake(path, current)
	if err != nil {
		return err
	}
	if sameHost(previous, current) {
		return nil
	}
	return run.Errorf(run.CodeConflict, "state dir %s is a copy, or was moved from another host: its tasks may run elsewhere. "+
		"Give this executor a state dir of its own; if the old one is gone for good, delete that executor (drover executors delete), "+
		"and delete the copy. Where nothing but the host's identity has changed, delete %s", dir, path)
}

// hostFingerprint returns the fingerprint of the host and state dir: the machine id and the
// dir's inode, each "-" if unknown.
func hostFingerprint(dir string) string {
	machine, inode := "-", "-"
	if id, err := os.ReadFile(machineIDFile); err == nil && len(strings.TrimSpace(string(id))) > 0 {
		machine = strings.TrimSpace(string(id))
	}
	if info, err := os.Stat(filepath.Join(dir, journalName)); err == nil {
		if n, ok := inodeOf(info); ok {
			inode = n
		}
	}
	return machine + " " + inode
}

// sameHost reports whether two fingerprints may be of the same host and dir.
func sameHost(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] && x[i] != "-" && y[i] != "-" {
			return false
		}
	}
	return true
}
