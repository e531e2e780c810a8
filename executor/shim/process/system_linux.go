package process

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// BootID returns an id that changes with each boot of the host.
func BootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// OOMKills returns how many processes of this control group the kernel has killed
// because of a lack of memory, 0 if the count is not available.
func OOMKills() int {
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

// oomFiles returns the possible files of the count, the closest first: in the
// process's own control group, version 2 and 1, and in the root that a container
// sees.
func oomFiles() []string {
	const root = "/sys/fs/cgroup"
	var files []string
	text, _ := os.ReadFile("/proc/self/cgroup")
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
	return append(files, root+"/memory.events", root+"/memory/memory.oom_control")
}
