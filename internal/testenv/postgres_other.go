//go:build !unix

package testenv

import "os/exec"

// detach says that the tests start no server of their own on this system.
func (s *postgresServer) detach(*exec.Cmd) error { return errNoPostgres }
