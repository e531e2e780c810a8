package process

import (
	"fmt"
	"os"
)

// Wake reports whether a shim runs in the directory: it polls by itself.
func Wake(dir string) (bool, error) { return Alive(dir) }

// Kill kills the running shim of the directory, and reports whether there was one.
func Kill(dir string) (bool, error) {
	alive, err := Alive(dir)
	if err != nil || !alive {
		return false, err
	}
	state, err := ReadState(dir)
	if err != nil {
		return false, err
	}
	p, err := os.FindProcess(state.PID)
	if err != nil {
		return false, fmt.Errorf("find the shim: %w", err)
	}
	defer func() { _ = p.Release() }()
	if err := p.Kill(); err != nil {
		return false, fmt.Errorf("kill the shim: %w", err)
	}
	return true, nil
}
