package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// resultRow is a row of the printed table.
type resultRow struct {
	name, drover, bare, ratio, goal string
	met                             bool
	usage                           usage
	tasks                           int
}

type table struct{ results []resultRow }

func (t *table) add(l resultRow) {
	fmt.Fprintf(os.Stderr, "  %s: %s, bare %s, %s\n", l.name, l.drover, l.bare, l.ratio)
	t.results = append(t.results, l)
}

func (t *table) print(w io.Writer, d *dev) {
	fmt.Fprintf(w, "%s, %s, %d CPUs, load %s\n\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), cpuModel(), runtime.NumCPU(), load())
	fmt.Fprintln(w, "| work | Drover | bare | ratio | goal | met | CPU ms a task | KiB written a task |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	for _, l := range t.results {
		met := ""
		if l.goal != "" {
			met = map[bool]string{true: "yes", false: "**no**"}[l.met]
		}
		cpu, written := "", ""
		if l.tasks > 0 {
			cpu = fmt.Sprintf("%.1f", l.usage.cpu.Seconds()*1000/float64(l.tasks))
			written = fmt.Sprintf("%.1f", float64(l.usage.written)/1024/float64(l.tasks))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", l.name, l.drover, l.bare, l.ratio, l.goal, met, cpu, written)
	}
	fmt.Fprintf(w, "\nPeak memory of the drover process, Temporal included: %s. CPU and bytes are of that process; shims and steps are not in them.\n", d.peak())
}

// usage is the resource use of a process.
type usage struct {
	cpu     time.Duration
	written int64
}

func (u usage) since(before usage) usage {
	return usage{cpu: u.cpu - before.cpu, written: u.written - before.written}
}

func (u usage) plus(more usage) usage {
	return usage{cpu: u.cpu + more.cpu, written: u.written + more.written}
}

// usage reads /proc; elsewhere it is zero.
func (d *dev) usage() usage {
	var u usage
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err == nil {
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 12 {
			user, _ := strconv.ParseInt(f[11], 10, 64)
			system, _ := strconv.ParseInt(f[12], 10, 64)
			u.cpu = time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
		}
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", d.cmd.Process.Pid))
	if err == nil {
		for l := range strings.SplitSeq(string(data), "\n") {
			if v, ok := strings.CutPrefix(l, "write_bytes: "); ok {
				u.written, _ = strconv.ParseInt(v, 10, 64)
			}
		}
	}
	return u
}

func (d *dev) peak() string {
	return procValue(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid), "VmHWM:")
}

func cpuModel() string { return procValue("/proc/cpuinfo", "model name\t:") }

func procValue(file, key string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for l := range strings.SplitSeq(string(data), "\n") {
		if v, ok := strings.CutPrefix(l, key); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
