//go:build unix

package shim

import (
	"os"
	"os/signal"
	"syscall"
)

// listen handles signals for the rest of the process. Each subscription costs some
// context switches, which matter for a task of a few milliseconds, so it subscribes
// to the necessary signals only and never unsubscribes.
func (c *control) listen() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	go func() {
		for s := range signals {
			c.signal(s == syscall.SIGUSR1)
		}
	}()
	if c.host {
		return // in a session of its own, without a reader that could end
	}
	// The signals are received and dropped. The steps would inherit ignored signals,
	// and their pipelines need SIGPIPE.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
}
