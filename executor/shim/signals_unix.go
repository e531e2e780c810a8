//go:build unix

package shim

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// listen takes signals for the rest of the process. Each signal costs some
// changes of threads to ask for, which a task of a few milliseconds feels, so
// it asks for no more than are needed and gives none back.
func (c *control) listen() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	go func() {
		for s := range signals {
			c.signal(s == syscall.SIGUSR1)
		}
	}()
	if c.host {
		return // in a session of its own, with no reader that could go away
	}
	// Taken and dropped. What is ignored instead would be ignored by the steps
	// too, whose pipelines live on SIGPIPE.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
}

// Wake makes the living shim of the directory look for a stop wish. It
// reports whether there was one to wake.
func Wake(dir string) (bool, error) {
	return signalShim(dir, syscall.SIGUSR1)
}

// Kill kills the living shim of the directory, and reports whether there was
// one. What it was running is left to the caller.
func Kill(dir string) (bool, error) {
	return signalShim(dir, syscall.SIGKILL)
}

func signalShim(dir string, s os.Signal) (bool, error) {
	state, err := ReadState(dir)
	if err != nil {
		return false, err
	}
	if state.PID == 0 {
		return Alive(dir) // it will look by itself when it begins
	}
	// The process is held before it is asked whether it is the shim: where
	// the system has such handles the number can not pass to another then.
	p, err := os.FindProcess(state.PID)
	if err != nil {
		return false, fmt.Errorf("finding the shim: %w", err)
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
		return false, fmt.Errorf("signalling the shim: %w", err)
	}
	return true, nil
}
