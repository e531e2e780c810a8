package shim

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// BootID returns an id that the host keeps until it is started again.
func BootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// oomKills returns how often the kernel has killed a process of this control
// group for want of memory, 0 where it does not tell.
func oomKills() int {
	for _, file := range oomFiles() {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if count, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
				n, _ := strconv.Atoi(string(bytes.TrimSpace(count)))
				return n
			}
		}
	}
	return 0
}

// oomFiles returns where the count may be: by the process's own control group,
// version 2 and 1, and where a container sees its own as the root.
func oomFiles() []string {
	const root = "/sys/fs/cgroup"
	files := []string{root + "/memory.events", root + "/memory/memory.oom_control"}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[1] == "":
			files = append(files, path.Join(root, parts[2], "memory.events"))
		case parts[1] == "memory":
			files = append(files, path.Join(root, "memory", parts[2], "memory.oom_control"))
		}
	}
	return files
}
