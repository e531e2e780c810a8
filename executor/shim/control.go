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

// The files in the shim's directory with the requests to stop the task. An abort is in
// both: the stop file may be replaced before the shim has read it, and a shim of an
// earlier version reads no other.
const (
	stopFile  = "stop"
	abortFile = "abort"
)

// StopRequest is the content of a stop file.
type StopRequest struct {
	Grace time.Duration `json:"grace"`
	// Abort means that no cleanup step begins, and that a running one is stopped as
	// well. An older shim, which never cleans up, ignores it.
	Abort bool `json:"abort,omitempty"`
}

// Files returns the content and the names of the files that pass the request to the
// shim: the shim reads them in its directory on a signal, and before the first step.
func (r StopRequest) Files() (content []byte, names []string, err error) {
	if content, err = json.Marshal(r); err != nil {
		return nil, nil, fmt.Errorf("encode the stop request: %w", err)
	}
	if r.Abort {
		names = append(names, abortFile)
	}
	return content, append(names, stopFile), nil
}

// WriteStop writes the files of a stop request to the directory.
func WriteStop(dir string, request StopRequest) error {
	content, names, err := request.Files()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := durable.WriteFile(filepath.Join(dir, name), content); err != nil {
			return fmt.Errorf("write the stop request: %w", err)
		}
	}
	return nil
}

// readStop returns the stop requests as one, if there are any: the shortest grace
// applies. A malformed one is a stop request too.
func readStop(dir string, grace time.Duration) (request StopRequest, ok bool) {
	for _, name := range []string{stopFile, abortFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		var r StopRequest
		if err := json.Unmarshal(text, &r); err != nil {
			r.Grace = grace
		}
		if ok {
			r.Grace = min(r.Grace, request.Grace)
		}
		request = StopRequest{Grace: r.Grace, Abort: request.Abort || r.Abort || name == abortFile}
		ok = true
	}
	return request, ok
}
