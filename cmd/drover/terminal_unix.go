//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// resizes returns a channel that receives a value when the size of the terminal
// changes.
func resizes() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
