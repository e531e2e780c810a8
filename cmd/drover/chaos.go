//go:build chaos && linux

package main

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/run"
)

// interfere freezes this process, once, at the point of a task's life that
// DROVER_CHAOS_FREEZE names: like SIGSTOP from outside, but at an exact place.
// DROVER_CHAOS_ONCE names a file that is made when it happens.
func interfere() func(point string, key run.Key) {
	want, once := os.Getenv("DROVER_CHAOS_FREEZE"), os.Getenv("DROVER_CHAOS_ONCE")
	if want == "" {
		return nil
	}
	return func(point string, _ run.Key) {
		if point != want {
			return
		}
		f, err := os.OpenFile(once, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return // it happened already
		}
		_ = f.Close()
		stopHere()
	}
}

// stopHere stops the process with its caller in this very place. A signal to
// the process would be taken by any of its threads, while the caller went on
// until that one came to run; a signal to the caller's own thread is taken
// before the call returns.
func stopHere() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}
