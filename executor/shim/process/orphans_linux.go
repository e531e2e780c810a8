package process

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// adoptsOrphans means that no process is left once there is no child.
const adoptsOrphans = true

// adoptOrphans makes this process the parent of all orphans of its descendants, as
// the first process of a container is anyway.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// descendants returns the processes below this one.
func descendants() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := make(map[int][]int)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(e.Name()); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	var out []int
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		below := children[next[0]]
		out, next = append(out, below...), append(next, below...)
	}
	return out
}

func parentOf(pid string) (int, bool) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	// "pid (name) state ppid ...", where the name may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
