package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// killLeftover kills the process groups whose command lines name a file below a
// directory of the test. The shims of a killed executor keep running, and without
// a new executor they would outlive the test.
func killLeftover(dir string) {
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
			_ = syscall.Kill(-group, syscall.SIGKILL) // the group may have ended
		}
	}
}
