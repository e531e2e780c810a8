package executor

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/run"
)

// placeName is the file beside the journal that says where they were made.
const placeName = "place"

// machineIDFile names the host, as machine-id(5) has it.
const machineIDFile = "/etc/machine-id"

// checkPlace refuses a state dir that was copied, to another host or on this
// one. Two processes with one journal would each believe that the other's
// tasks are theirs and, finding no environments, that these have vanished.
// What can not be known, for want of a machine id or of inodes, is not
// compared. Errors: CodeConflict.
func checkPlace(dir string) error {
	here := placeOf(dir)
	path := filepath.Join(dir, journalName, placeName)
	was, err := readOrMake(path, here)
	if err != nil {
		return err
	}
	if samePlace(was, here) {
		return nil
	}
	return run.Errorf(run.CodeConflict, "state dir %s is a copy, or was moved from another host: its tasks may run elsewhere. "+
		"Give this executor a state dir of its own; if the old one is gone for good, remove that executor (drover executors remove), "+
		"and delete the copy. Where nothing but the host's identity has changed, delete %s", dir, path)
}

// placeOf describes where a state dir is: the host's machine id, and the dir's
// inode, each "-" where it is not known.
func placeOf(dir string) string {
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

// samePlace reports whether two descriptions may be of one place.
func samePlace(a, b string) bool {
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
