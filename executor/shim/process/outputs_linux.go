package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Outputs reads the two outputs of a process, 0 and 1, in the order of the writes.
//
// No system call reports the order of what waits in two pipes, so little may wait
// there: each pipe holds one write, of at most a page. A process thus waits with its
// next write to a pipe until the last one to this pipe was read, and epoll reports the
// pipes in the order in which they became readable. If a process enlarges its pipe, or
// the kernel refuses such pipes, the order is that of the first bytes of each burst.
type Outputs struct {
	poll *os.File // an epoll instance, itself watched by the runtime

	mu   sync.Mutex // against Close
	ends [2]end
}

// end is the end of a pipe that is read.
type end struct {
	fd     int // -1: closed
	hungUp bool
}

// NewOutputs creates the pipes, and returns the ends to write to. They are closed by
// the caller.
func NewOutputs() (_ *Outputs, writers [2]*os.File, err error) {
	o := &Outputs{ends: [2]end{{fd: -1}, {fd: -1}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
			for _, w := range writers {
				if w != nil {
					_ = w.Close()
				}
			}
		}
	}()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, writers, fmt.Errorf("create an epoll instance: %w", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // so that os.File watches it
		return nil, writers, errors.Join(fmt.Errorf("prepare the epoll instance: %w", err), unix.Close(epoll))
	}
	o.poll = os.NewFile(uintptr(epoll), "epoll")
	for i := range o.ends {
		if writers[i], err = o.ends[i].open(); err != nil {
			return nil, writers, err
		}
		// Edge-triggered: the instance lists a pipe again only after another write, which
		// keeps the list in the order of the writes.
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(i)}
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, o.ends[i].fd, &event); err != nil {
			return nil, writers, fmt.Errorf("watch a pipe: %w", err)
		}
	}
	return o, writers, nil
}

// open creates a pipe.
func (e *end) open() (writer *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_DIRECT); err != nil { // a kernel without packets
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return nil, fmt.Errorf("create a pipe: %w", err)
		}
	}
	e.fd, writer = fds[0], os.NewFile(uintptr(fds[1]), "|1")
	if err := unix.SetNonblock(e.fd, true); err != nil {
		return writer, fmt.Errorf("prepare a pipe: %w", err)
	}
	// Its success is not needed, only the order depends on it. 1 is rounded up to a page.
	_, _ = unix.FcntlInt(uintptr(e.fd), unix.F_SETPIPE_SZ, 1)
	return writer, nil
}

// Read waits for output, and returns the number of the output that it read from. The
// buffer must hold a page. The error is io.EOF after the end of both outputs,
// os.ErrDeadlineExceeded after the deadline.
func (o *Outputs) Read(buf []byte) (from, n int, err error) { return o.read(buf, true) }

// ReadNow is like Read, and returns ErrEmptyPipe instead of waiting.
func (o *Outputs) ReadNow(buf []byte) (from, n int, err error) { return o.read(buf, false) }

// SetReadDeadline sets the time until which Read waits; zero is without end.
func (o *Outputs) SetReadDeadline(at time.Time) error { return o.poll.SetReadDeadline(at) }

// Close closes the pipes, and ends Read.
func (o *Outputs) Close() error {
	var err error
	if o.poll != nil {
		err = o.poll.Close()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.ends {
		o.ends[i].close()
	}
	return err
}

func (e *end) close() {
	if e.fd >= 0 {
		_ = unix.Close(e.fd)
		e.fd = -1
	}
}

func (o *Outputs) read(buf []byte, wait bool) (from, n int, err error) {
	conn, err := o.poll.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	closed := conn.Read(func(epoll uintptr) (done bool) {
		from, n, err = o.take(int(epoll), buf)
		return !wait || !errors.Is(err, ErrEmptyPipe)
	})
	if closed != nil {
		return 0, 0, closed
	}
	return from, n, err
}

// take reads from the pipe that was written to first.
func (o *Outputs) take(epoll int, buf []byte) (from, n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		i, err := o.next(epoll)
		if err != nil {
			return 0, 0, err
		}
		e := &o.ends[i]
		n, err := unix.Read(e.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN): // an event whose output was read already
			e.hungUp = false
		case err != nil:
			return 0, 0, fmt.Errorf("read a pipe: %w", err)
		case n == 0:
			e.close()
			if o.ends[0].fd < 0 && o.ends[1].fd < 0 {
				return 0, 0, io.EOF
			}
		default:
			return i, n, nil
		}
	}
}

// next returns the number of the pipe to read from, or ErrEmptyPipe.
func (o *Outputs) next(epoll int) (int, error) {
	if i, err := o.event(epoll); i >= 0 || err != nil {
		return i, err
	}
	// A pipe may hold more than one write, and one event stands for all of them.
	for i, e := range o.ends {
		if e.fd < 0 {
			continue
		}
		if waiting, err := unix.IoctlGetInt(e.fd, unix.TIOCINQ); !e.hungUp && (err != nil || waiting == 0) {
			continue
		}
		if first, err := o.event(epoll); first >= 0 || err != nil { // meanwhile, and in the right order
			return first, err
		}
		return i, nil
	}
	return -1, ErrEmptyPipe
}

// event returns the number of the pipe of the next event, -1 for none.
func (o *Outputs) event(epoll int) (int, error) {
	var events [1]unix.EpollEvent
	for {
		n, err := unix.EpollWait(epoll, events[:], 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return -1, fmt.Errorf("wait for a pipe: %w", err)
		case n == 0:
			return -1, nil
		}
		i := int(events[0].Fd)
		if o.ends[i].fd < 0 {
			continue
		}
		if events[0].Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			o.ends[i].hungUp = true
		}
		return i, nil
	}
}
