package shim

import (
	"os"
	"os/signal"
	"time"
)

// stopPoll is the poll interval for the stop file: Windows has no signals.
const stopPoll = 200 * time.Millisecond

// listen handles Ctrl-C and polls for the stop file for the rest of the process. A
// shim that lingers is ended from outside.
func (c *control) listen() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt)
	ticker := time.NewTicker(stopPoll)
	go func() {
		for {
			select {
			case <-signals:
				c.signal(false)
			case <-ticker.C:
				c.checkStopFile()
			}
		}
	}()
}
