package shell

import (
	"os"
	"sync"

	"github.com/drover-run/drover/run"
)

// children are the shims that this process has started. The process must reap
// them, or they stay as zombies. No goroutine and no thread waits for a shim:
// reap collects ended shims at the next occasion. The zero value is ready.
type children struct {
	mu     sync.Mutex
	living map[run.Key]*os.Process
	ending []*os.Process
}

func (c *children) add(key run.Key, p *os.Process) {
	c.reap()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.living == nil {
		c.living = make(map[run.Key]*os.Process)
	}
	if old := c.living[key]; old != nil { // the shim ended before its task began
		c.ending = append(c.ending, old)
	}
	c.living[key] = p
}

// ended records that the shim of a key has ended or is about to.
func (c *children) ended(key run.Key) {
	c.mu.Lock()
	if p := c.living[key]; p != nil {
		delete(c.living, key)
		c.ending = append(c.ending, p)
	}
	c.mu.Unlock()
	c.reap()
}

// reap reaps the shims that have ended.
func (c *children) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.ending[:0]
	for _, p := range c.ending {
		if !reaped(p) {
			left = append(left, p)
		}
	}
	c.ending = left
}
