package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// endLeftover kills the process groups that were started from files below a
// directory of the test: an executor that is killed leaves its tasks to their
// shims, and where none comes back, they would outlast the test.
func endLeftover(dir string) {
	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return
	}
	own := syscall.Getpgrp()
	for _, list := range lists {
		line, err := os.ReadFile(list)
		if err != nil || !bytes.Contains(line, []byte(dir+"/")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(list)))
		if err != nil {
			continue
		}
		if group, err := syscall.Getpgid(pid); err == nil && group != own {
			_ = syscall.Kill(-group, syscall.SIGKILL) // unless it is gone
		}
	}
}
