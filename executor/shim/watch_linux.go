package shim

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Watcher tells when the journals of any number of directories change. It
// holds resources of the system only while something is watched. The zero
// value is ready; it is safe for concurrent use.
type Watcher struct {
	mu      sync.Mutex
	file    *os.File // an inotify instance; nil while nothing is watched
	fd      int      // of file: asking it would make its reads block
	done    chan struct{}
	watched map[int]map[*watch]struct{} // by watch descriptor
}

// watch begins to watch a directory. The returned function ends that.
func (w *Watcher) watch(dir string) (*watch, func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		if err := w.open(); err != nil {
			return nil, nil, err
		}
	}
	const mask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	id, err := unix.InotifyAddWatch(w.fd, dir, mask)
	if err != nil {
		w.closeIfUnused()
		return nil, nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	one := newWatch()
	if w.watched[id] == nil {
		w.watched[id] = make(map[*watch]struct{})
	}
	w.watched[id][one] = struct{}{}
	return one, func() { w.unwatch(id, one) }, nil
}

func (w *Watcher) open() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("opening inotify: %w", err)
	}
	w.file, w.fd = os.NewFile(uintptr(fd), "inotify"), fd
	w.watched = make(map[int]map[*watch]struct{})
	w.done = make(chan struct{})
	go w.read(w.file, w.done)
	return nil
}

func (w *Watcher) unwatch(id int, one *watch) {
	w.mu.Lock()
	list := w.watched[id]
	delete(list, one)
	if list != nil && len(list) == 0 {
		delete(w.watched, id)
		_, _ = unix.InotifyRmWatch(w.fd, uint32(id)) //nolint:gosec // came from the kernel
	}
	done := w.closeIfUnused()
	w.mu.Unlock()
	if done != nil {
		<-done
	}
}

// closeIfUnused gives the instance back. The returned channel, where there is
// one, is closed when its reader has ended.
func (w *Watcher) closeIfUnused() <-chan struct{} {
	if w.file == nil || len(w.watched) > 0 {
		return nil
	}
	_ = w.file.Close()
	w.file = nil
	return w.done
}

// read hands events out until the file is closed.
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
			id := int(int32(binary.NativeEndian.Uint32(events))) //nolint:gosec // the kernel's type
			mask := binary.NativeEndian.Uint32(events[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
			name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
			events = events[end:]
			w.tell(file, id, mask, name)
		}
		w.mu.Unlock()
	}
}

func (w *Watcher) tell(file *os.File, id int, mask uint32, name string) {
	if w.file != file {
		return // closed meanwhile
	}
	closed := mask&unix.IN_CLOSE_WRITE != 0
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		for _, list := range w.watched {
			for one := range list {
				one.tell(true)
			}
		}
	case name == JournalFile || name == LockFile && closed || name == "":
		for one := range w.watched[id] {
			one.tell(closed || name == "")
		}
	}
}
