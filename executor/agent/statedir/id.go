package statedir

import (
	"errors"
	"os"
)

// ID returns the executor id of a state dir. It creates the dir and the id
// if there are none, as Open does with the same id. It is for drivers that need
// the id before there is an agent. Errors: CodeConflict if another process holds
// the dir, or it belongs to another id than the requested one.
func ID(dir, requested string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	who, err := Open(dir, requested, host)
	if err != nil {
		return "", err
	}
	return who.ID, errors.Join(who.lock.Unlock())
}
