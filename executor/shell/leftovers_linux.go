package shell

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

// leftovers returns the processes of the task's steps. It finds them by an
// environment variable that contains the task's directory, or by the session of
// the task's shim.
func (h *handle) leftovers(state process.State) ([]int, error) {
	mark := []byte("\x00" + run.VariableOutput + "=" + h.dir + "/")
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ") // not readable for processes of other users
		if bytes.Contains(append([]byte{0}, env...), mark) || h.inSession(e.Name(), state) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// inSession reports whether a process whose environment is not readable is in
// the shim's session and has its working directory in the task's directory.
func (h *handle) inSession(pid string, state process.State) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	// "pid (name) state ppid pgrp session ...", where the name may contain
	// anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const stateField, sessionField = 0, 3
	if len(fields) <= sessionField || fields[stateField][0] == 'Z' || string(fields[sessionField]) != strconv.Itoa(state.PID) {
		return false
	}
	at, err := os.Readlink("/proc/" + pid + "/cwd")
	return err == nil && strings.HasPrefix(at, h.dir)
}
