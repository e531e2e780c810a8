package shell

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/executor/shim/process"
)

// leftovers returns the processes in the session of the task's shim.
func (h *handle) leftovers(state process.State) ([]int, error) {
	processes, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Getuid())
	if err != nil {
		return nil, err
	}
	const zombie = 5
	var out []int
	for _, p := range processes {
		pid := int(p.Proc.P_pid)
		if session, err := unix.Getsid(pid); err == nil && session == state.PID && p.Proc.P_stat != zombie {
			out = append(out, pid)
		}
	}
	return out, nil
}
