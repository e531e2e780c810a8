package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/durable"
)

// control holds requests from outside: a stop, and after the end the
// acknowledgment. It is safe for concurrent use.
type control struct {
	dir          string
	host         bool
	strict       bool // a signal without a stop request does not come from Drover
	defaultGrace time.Duration
	stopped      chan struct{} // closed at the first stop
	aborted      chan struct{} // closed at the first stop without a cleanup
	stopUpdated  chan struct{} // receives a value for each
	acknowledged chan struct{} // closed by the first signal after the end

	mu       sync.Mutex
	request  StopRequest
	external bool // the stop did not come from Drover
	ending   bool
	isAcked  bool
}

func newControl(o Options, grace time.Duration) *control {
	return &control{
		dir: o.Dir, host: o.Host, strict: o.Host || o.Strict, defaultGrace: grace,
		stopped: make(chan struct{}), aborted: make(chan struct{}), stopUpdated: make(chan struct{}, 1), acknowledged: make(chan struct{}),
	}
}

// checkStopFile reads a stop request from its file.
func (c *control) checkStopFile() {
	if request, ok := readStop(c.dir, c.defaultGrace); ok {
		c.stop(request, false)
	}
}

// signal handles a signal. Explicit ones come from Drover alone; others may come
// from the shutdown of a host, unless there is a stop file.
func (c *control) signal(explicit bool) {
	c.mu.Lock()
	if c.ending {
		if !c.isAcked {
			c.isAcked = true
			close(c.acknowledged)
		}
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	request, ok := readStop(c.dir, c.defaultGrace)
	if !ok {
		request.Grace = c.defaultGrace
	}
	outside := !explicit && c.strict
	// Something outside is about to end the environment: there is no time to clean up.
	request.Abort = request.Abort || outside
	c.stop(request, !ok && outside)
}

func (c *control) stop(request StopRequest, external bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.stopped:
		c.external = c.external && external
		request.Grace = min(request.Grace, c.request.Grace)
		request.Abort = request.Abort || c.request.Abort
		c.request = request
	default:
		c.request, c.external = request, external
		close(c.stopped)
	}
	if request.Abort && !c.isAbortedLocked() {
		close(c.aborted)
	}
	select {
	case c.stopUpdated <- struct{}{}:
	default:
	}
}

func (c *control) grace() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.request.Grace
}

// isAborted reports whether no cleanup step may run.
func (c *control) isAborted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isAbortedLocked()
}

// isAbortedLocked is isAborted for a caller that holds the lock.
func (c *control) isAbortedLocked() bool {
	select {
	case <-c.aborted:
		return true
	default:
		return false
	}
}

// isExternal reports whether the stop did not come from Drover.
func (c *control) isExternal() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.external
}

// end makes further signals count as the acknowledgment. It is called before the
// end is written, so that no response to the end is taken for a stop.
func (c *control) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
}

// StopFile is the file in the shim's directory with the request to stop the task.
const StopFile = "stop"

// StopRequest is the content of the stop file.
type StopRequest struct {
	Grace time.Duration `json:"grace"`
	// Abort means that no cleanup step begins, and that a running one is stopped as
	// well. An older shim, which never cleans up, ignores it.
	Abort bool `json:"abort,omitempty"`
}

// WriteStop writes a stop request to the directory. The shim reads it on a signal,
// and before the first step.
func WriteStop(dir string, request StopRequest) error {
	text, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode the stop request: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, StopFile), text); err != nil {
		return fmt.Errorf("write the stop request: %w", err)
	}
	return nil
}

// readStop returns the stop request, if there is one. A malformed one is a stop
// request too.
func readStop(dir string, grace time.Duration) (request StopRequest, ok bool) {
	text, err := os.ReadFile(filepath.Join(dir, StopFile))
	if err != nil {
		return request, false
	}
	if err := json.Unmarshal(text, &request); err != nil {
		request.Grace = grace
	}
	return request, true
}
