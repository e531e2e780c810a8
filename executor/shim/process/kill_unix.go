//go:build unix

package process

import (
	"fmt"
	"os"
	"syscall"
)

// Wake makes the running shim of the directory check for a stop request. It reports
// whether a shim runs.
func Wake(dir string) (bool, error) {
	return signalShim(dir, syscall.SIGUSR1)
}

// Kill kills the running shim of the directory, and reports whether there was one.
// The caller must end the processes of its steps.
func Kill(dir string) (bool, error) {
	return signalShim(dir, syscall.SIGKILL)
}

func signalShim(dir string, s os.Signal) (bool, error) {
	state, err := ReadState(dir)
	if err != nil {
		return false, err
	}
	if state.PID == 0 {
		return Alive(dir) // it checks for requests when it begins
	}
	// Open the process before the check that it is the shim: on systems with such
	// handles its number can not be reused then.
	p, err := os.FindProcess(state.PID)
	if err != nil {
		return false, fmt.Errorf("find the shim: %w", err)
	}
	defer func() { _ = p.Release() }()
	alive, err := Alive(dir)
	if err != nil || !alive {
		return false, err
	}
	if err := p.Signal(s); err != nil {
		alive, again := Alive(dir)
		if again != nil || !alive {
			return false, again
		}
		return false, fmt.Errorf("signal the shim: %w", err)
	}
	return true, nil
}
