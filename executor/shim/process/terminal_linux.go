package process

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenTerminal creates a pseudoterminal. Reads from the controlling end support
// deadlines; the console is for the processes.
func OpenTerminal() (control, console *os.File, err error) {
	const name = "/dev/ptmx"
	// A file whose descriptor is asked for would lose its deadlines.
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	control = os.NewFile(uintptr(fd), name)
	defer func() {
		if err != nil {
			_ = control.Close()
		}
	}()
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, os.NewSyscallError("unlock a terminal", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, os.NewSyscallError("get the number of a terminal", err)
	}
	console, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	return control, console, err
}

// ResizeTerminal sets the size of a terminal.
func ResizeTerminal(control *os.File, rows, columns uint16) error {
	conn, err := control.SyscallConn()
	if err != nil {
		return err
	}
	resizeErr := conn.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
	if resizeErr != nil {
		return resizeErr
	}
	return err
}
