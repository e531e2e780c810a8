//go:build !unix

package testenv

import "os/exec"

// detach returns errNoPostgres: the tests start no server on this system.
func (s *postgresServer) detach(*exec.Cmd) error { return errNoPostgres }
