package journal

import (
	"bytes"
	"io"
	"sync"
)

const (
	// maxCopyLine is the longest line of the copy, newline included. A longer
	// frame is left out: the reader sees the gap and reads the journal.
	maxCopyLine = 8 << 10
	// maxCopyBacklog bounds the bytes that wait for a slow reader.
	maxCopyBacklog = 256 << 10
)

// Copy writes a copy of the frames as lines "<nonce> <frame>", and never
// blocks the journal: lines that do not fit its buffer are dropped. The newest
// frame is stored separately and always written in the end, so that a reader
// detects a gap even if nothing follows. A nil copy drops everything.
type Copy struct {
	out    io.Writer
	prefix string

	mu      sync.Mutex
	changed *sync.Cond
	queue   []byte
	newest  []byte // dropped, and newer than all queued frames
	closed  bool
	done    chan struct{}
}

// NewCopy starts the writer; close ends it.
func NewCopy(out io.Writer, nonce string) *Copy {
	c := &Copy{out: out, prefix: nonce + " ", done: make(chan struct{})}
	c.changed = sync.NewCond(&c.mu)
	go c.run()
	return c
}

// add queues lines of frames; last means that the task's end, which is never
// dropped, is among them.
func (c *Copy) add(lines []byte, last bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	for line := range bytes.Lines(lines) {
		size := len(c.prefix) + len(line)
		switch {
		case last || (size <= maxCopyLine && len(c.queue)+size <= maxCopyBacklog):
			c.queue = append(append(c.queue, c.prefix...), line...)
			c.newest = nil
		case size <= maxCopyLine:
			c.newest = append(append(c.newest[:0], c.prefix...), line...)
		}
	}
	c.mu.Unlock()
	c.changed.Signal()
}

// Close waits until all lines are written, or until wait is closed.
func (c *Copy) Close(wait <-chan struct{}) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.changed.Signal()
	select {
	case <-c.done:
	case <-wait:
	}
}

func (c *Copy) run() {
	defer close(c.done)
	var batch []byte
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && len(c.newest) == 0 && !c.closed {
			c.changed.Wait()
		}
		if len(c.queue) == 0 {
			c.queue, c.newest = append(c.queue, c.newest...), nil
		}
		batch, c.queue = c.queue, batch[:0]
		c.mu.Unlock()
		if len(batch) == 0 {
			return // closed
		}
		if _, err := c.out.Write(batch); err != nil {
			c.discard()
			return
		}
	}
}

// discard drops everything after the reader has closed the pipe.
func (c *Copy) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out, c.queue, c.newest = io.Discard, nil, nil
}
