//go:build unix

package testenv

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// detach runs a program of the server in a session of its own, so that a signal to
// the tests does not end it before the watchdog does. If the tests run as root, it
// selects another user, because the server refuses to run as root.
func (s *postgresServer) detach(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() != 0 {
		return nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		found, err = user.LookupId("65534") // the unprivileged user of most systems
	}
	if err != nil {
		return errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor one with the id 65534")
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return err
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, int(uid), int(gid))
}
