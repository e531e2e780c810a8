//go:build chaos && linux

package executorrole

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/run"
)

// failpoint freezes this process once, at the point of a task's life that
// DROVER_CHAOS_FREEZE names: like SIGSTOP from outside, but at an exact point. It
// creates the file that DROVER_CHAOS_ONCE names when it does.
func failpoint() func(point string, key run.Key) {
	want, once := os.Getenv("DROVER_CHAOS_FREEZE"), os.Getenv("DROVER_CHAOS_ONCE")
	if want == "" {
		return nil
	}
	return func(point string, _ run.Key) {
		if point != want {
			return
		}
		f, err := os.OpenFile(once, os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // a test names the file
		if err != nil {
			return // frozen once already
		}
		_ = f.Close()
		stopHere()
	}
}

// stopHere stops the process while its caller is at this point. Any thread could
// take a signal to the process, and the caller would continue until that thread
// runs. A signal to the caller's own thread is taken before the call returns.
func stopHere() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}
