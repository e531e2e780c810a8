package journal

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/executor/shim/process"
)

// Watcher notifies followers when the journals of any number of directories change.
// The zero value is ready; it is safe for concurrent use. From its first use on it
// holds resources of the system until Close.
type Watcher struct {
	mu      sync.Mutex
	file    *os.File // an inotify instance; nil before the first use
	fd      int      // of file: File.Fd would make its reads block
	done    chan struct{}
	watched map[int]map[*watch]struct{} // by watch descriptor

	fallback time.Duration // poll interval of its followers; 0 means pollFallback
}

// watch begins to watch the journal of a directory, or if there is none yet its
// creation. The returned function ends that.
func (w *Watcher) watch(dir string, exists bool) (*watch, func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		if err := w.open(); err != nil {
			return nil, nil, err
		}
	}
	// Only the necessary events: each one wakes this process.
	path, mask := dir, uint32(unix.IN_CREATE|unix.IN_CLOSE_WRITE|unix.IN_MOVE_SELF)
	if exists {
		path, mask = filepath.Join(dir, File), unix.IN_MODIFY|unix.IN_CLOSE_WRITE|unix.IN_ATTRIB
	}
	id, err := unix.InotifyAddWatch(w.fd, path, mask)
	if err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", path, err)
	}
	one := newWatch(w.fallback)
	if w.watched[id] == nil {
		w.watched[id] = make(map[*watch]struct{})
	}
	w.watched[id][one] = struct{}{}
	file := w.file
	return one, func() { w.unwatch(file, id, one) }, nil
}

func (w *Watcher) open() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("open inotify: %w", err)
	}
	w.file, w.fd = os.NewFile(uintptr(fd), "inotify"), fd
	w.watched = make(map[int]map[*watch]struct{})
	w.done = make(chan struct{})
	go w.read(w.file, w.done)
	return nil
}

func (w *Watcher) unwatch(file *os.File, id int, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != file {
		return // closed meanwhile
	}
	list := w.watched[id]
	delete(list, one)
	if list != nil && len(list) == 0 {
		delete(w.watched, id)
		_, _ = unix.InotifyRmWatch(w.fd, uint32(id))
	}
}

// Close releases the resources of the watcher. Current followers poll from then on.
// The watcher may be used again. Close takes some time in the kernel, so call it at
// the end of a process, not of each task.
func (w *Watcher) Close() error {
	w.mu.Lock()
	file, done := w.file, w.done
	w.file = nil
	for _, list := range w.watched {
		for one := range list {
			one.notify(true)
		}
	}
	w.mu.Unlock()
	if file == nil {
		return nil
	}
	err := file.Close()
	<-done
	return err
}

// read dispatches events until the file is closed.
func (w *Watcher) read(file *os.File, done chan<- struct{}) {
	defer close(done)
	buf := make([]byte, 16<<10)
	for {
		n, err := file.Read(buf)
		if err != nil {
			return
		}
		w.mu.Lock()
		for events := buf[:n]; len(events) >= unix.SizeofInotifyEvent; {
			id := int(int32(binary.NativeEndian.Uint32(events)))
			mask := binary.NativeEndian.Uint32(events[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
			name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
			events = events[end:]
			w.dispatch(file, id, mask, name)
		}
		w.mu.Unlock()
	}
}

func (w *Watcher) dispatch(file *os.File, id int, mask uint32, name string) {
	if w.file != file {
		return // closed meanwhile
	}
	closed := mask&^(unix.IN_CREATE|unix.IN_MODIFY) != 0 // also moved, or its links changed
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		for _, list := range w.watched {
			for one := range list {
				one.notify(true)
			}
		}
	case name == "" || name == File || name == process.LockFile && closed:
		for one := range w.watched[id] {
			one.notify(closed)
		}
	}
}
