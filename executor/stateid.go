package executor

import (
	"errors"
	"os"
)

// StateDirID returns the id of the executor whose state dir it is, making the
// dir and the id where there are none, as NewAgent does with the same wanted
// id. It is for drivers that must know the id before there is an agent.
// Errors: CodeConflict where another process holds the dir, or it belongs to
// another id than the one wanted.
func StateDirID(dir, wanted string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	who, err := openIdentity(dir, wanted, host)
	if err != nil {
		return "", err
	}
	return who.id, errors.Join(who.lock.Unlock())
}
