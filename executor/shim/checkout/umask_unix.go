//go:build unix

package checkout

import "syscall"

// clearUmask lets all users write to the files that this process and git create.
func clearUmask() { syscall.Umask(0) }
