package process

import (
	"bytes"
	"math"
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

// MemoryLimit returns the limit of memory of this control group in bytes, 0 if it has
// none, or if it is not available.
func MemoryLimit() int64 {
	const root = "/sys/fs/cgroup"
	limit := int64(math.MaxInt64)
	for _, file := range oomFiles() {
		for dir := path.Dir(file); strings.HasPrefix(dir, root); dir = path.Dir(dir) { // groups above may have less
			for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
				text, err := os.ReadFile(path.Join(dir, name))
				if err != nil {
					continue
				}
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // not "max"
					limit = min(limit, n)
				}
			}
		}
	}
	const unlimited = math.MaxInt64 / 2 // version 1 has a number for it
	if limit > unlimited {
		return 0
	}
	return limit
}

// oomMargin is how much more likely than its parent the kernel kills a process of a step
// when memory runs out, in thousandths of the memory that is there. At a limit of 48 MiB
// it outweighs a shim.
const oomMargin = 300

// exposeToOOM makes the kernel kill a process that this one has started, and its
// children, before this process. Without it, a step that takes all memory of its
// container could end the container, and the result of the step would be lost. The
// order among containers and other services of a host changes little: the kernel's own
// range has 2,000 steps. It has no effect where the kernel refuses it.
func exposeToOOM(pid int) {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return
	}
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(min(own+oomMargin, oomMost))), 0)
}

// oomMost is the greatest value of oom_score_adj.
const oomMost = 1000

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
