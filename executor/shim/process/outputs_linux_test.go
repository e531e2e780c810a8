package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// readAll reads both outputs to their ends.
func readAll(t *testing.T, o *Outputs) (order []string, each [2]string) {
	t.Helper()
	buf := make([]byte, 1<<16)
	for {
		i, n, err := o.Read(buf)
		if errors.Is(err, io.EOF) {
			return order, each
		}
		require.NoError(t, err)
		each[i] += string(buf[:n])
		order = append(order, fmt.Sprintf("%d %s", i, buf[:n]))
	}
}

func newOutputs(t *testing.T) (*Outputs, [2]*os.File) {
	t.Helper()
	o, w, err := NewOutputs()
	require.NoError(t, err)
	t.Cleanup(func() { _ = o.Close() })
	return o, w
}

func closeBoth(w [2]*os.File) { _, _ = w[0].Close(), w[1].Close() }

func TestOutputs_in_the_order_of_the_writes(t *testing.T) {
	t.Parallel()
	o, w := newOutputs(t)
	var want []string
	for i := range 5000 {
		to := 0
		if i%7 < 3 || i%100 > 80 {
			to = 1
		}
		want = append(want, fmt.Sprintf("%d line %d\n", to, i))
	}
	go func() {
		defer closeBoth(w)
		for _, text := range want {
			if _, err := w[text[0]-'0'].WriteString(text[2:]); err != nil {
				return
			}
		}
	}()
	got, _ := readAll(t, o)
	require.Equal(t, want, got)
}

// Nothing is lost, and no writer waits forever, if a program enlarges its pipes, makes
// them ordinary ones, or writes more than a page.
func TestOutputs_of_programs_that_change_their_pipes(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 1<<10) + "\n"
	for name, change := range map[string]func(t *testing.T, fd int){
		"unchanged": func(*testing.T, int) {},
		"enlarged": func(t *testing.T, fd int) {
			t.Helper()
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, 1<<18)
			require.NoError(t, err)
		},
		"without packets": func(t *testing.T, fd int) {
			t.Helper()
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
			require.NoError(t, err)
		},
		"ordinary": func(t *testing.T, fd int) {
			t.Helper()
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
			require.NoError(t, err)
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, 1<<16)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, w := newOutputs(t)
			var want [2]string
			for i := range 300 {
				want[0] += fmt.Sprintf("line %d\n", i) + large
				want[1] += fmt.Sprintf("error %d\n", i)
			}
			for i := range w {
				go func() {
					defer func() { _ = w[i].Close() }()
					for n, text := range strings.SplitAfter(want[i], "\n") {
						if n == 100 {
							change(t, int(w[i].Fd()))
						}
						if _, err := w[i].WriteString(text); err != nil {
							return
						}
					}
				}()
			}
			_, each := readAll(t, o)
			require.Equal(t, want, each)
		})
	}
}

func TestOutputs_deadline(t *testing.T) {
	t.Parallel()
	o, w := newOutputs(t)
	buf := make([]byte, 1<<16)
	_, _, err := o.ReadNow(buf)
	require.ErrorIs(t, err, ErrEmptyPipe)
	require.NoError(t, o.SetReadDeadline(time.Now()))
	_, _, err = o.Read(buf)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, o.SetReadDeadline(time.Time{}))
	_, err = w[1].WriteString("x")
	require.NoError(t, err)
	i, n, err := o.ReadNow(buf)
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{i, n})
	ended := make(chan error, 1)
	go func() {
		_, _, err := o.Read(buf)
		ended <- err
	}()
	require.NoError(t, w[1].Close(), "the end of one output is not the end")
	require.NoError(t, o.Close())
	require.Error(t, <-ended)
	require.NoError(t, w[0].Close())
}
