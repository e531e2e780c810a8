package loss

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestLoss_partition drops all packets of an executor's host until Drover shows
// the loss of contact, and then restores the network.
func TestLoss_partition(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string][]harness.Part{
		"temporal": {harness.Temporal},
		"gateway":  {harness.Gateway},
		"both":     {harness.Gateway, harness.Temporal},
	} {
		if name != "both" && !harness.Soak() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			graph := harness.Tally{Dir: t.TempDir(), Tasks: 3, Steps: 3, Pause: "6"}
			network := harness.NewNetwork(t)
			parts := harness.StartPartsOn(t, network, "4")
			id := parts.Submit(graph.Spec("cut-off-from-" + name)).ID
			parts.Await(id, func(r api.Run) bool { return harness.Running(r) == 3 })
			network.Cut(servers...)
			if servers[len(servers)-1] == harness.Temporal {
				parts.Await(id, func(r api.Run) bool { return harness.OutOfContact(r) == 3 })
			} else {
				parts.AwaitExecutor("offline")
			}
			require.Empty(t, endedOf(parts.Get(id)), "a task of the unreachable executor has ended")
			network.Restore()
			r := parts.AwaitPhase(id, "finished")
			graph.Check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
		})
	}
}

// TestLoss_reboot kills all processes of a host at once, including the
// environments of tasks. Those tasks fail with a reason.
func TestLoss_reboot(t *testing.T) {
	t.Parallel()
	graph := harness.Tally{Dir: t.TempDir(), Tasks: 3, Steps: 1, Pause: "600"}
	parts, host := startOnHost(t, "4")
	id := parts.Submit(graph.Spec("rebooted")).ID
	harness.AwaitBegun(t, graph.Dir, 4)
	host.Kill()
	parts.LaunchOnHost().AwaitReady()
	r := parts.AwaitPhase(id, "finished")
	require.Equal(t, api.Result("failed"), r.Result)
	for name, task := range r.Tasks {
		if strings.HasPrefix(name, "work") {
			require.Equal(t, api.Status("failed"), task.Status, name)
			require.NotEmpty(t, task.Reason, name)
			t.Logf("%s: %s", name, task.Reason)
		}
	}
	requireRanOnce(t, graph.Dir, 4)
}

// TestLoss_thawed_host stops all processes of a host beyond the heartbeat
// timeout, and resumes them.
func TestLoss_thawed_host(t *testing.T) {
	t.Parallel()
	graph := harness.Tally{Dir: t.TempDir(), Tasks: 3, Steps: 3, Pause: "5"}
	parts, host := startOnHost(t, "4")
	id := parts.Submit(graph.Spec("thawed")).ID
	parts.Await(id, func(r api.Run) bool { return harness.Running(r) == 3 })
	all := descendants(t, host.PID())
	for _, pid := range all {
		require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	}
	parts.Await(id, func(r api.Run) bool { return harness.OutOfContact(r) == 3 })
	for _, pid := range all {
		require.NoError(t, unix.Kill(pid, unix.SIGCONT))
	}
	r := parts.AwaitPhase(id, "finished")
	graph.Check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
}

// TestLoss_wiped removes the state dir of an executor that was killed. The
// outcome of its tasks is unknown, so they fail.
func TestLoss_wiped(t *testing.T) {
	t.Parallel()
	graph := harness.Tally{Dir: t.TempDir(), Tasks: 3, Steps: 1, Pause: "600"}
	parts, host := startOnHost(t, "4")
	id := parts.Submit(graph.Spec("wiped")).ID
	harness.AwaitBegun(t, graph.Dir, 4)
	executor := parts.Get(id).Tasks["prepare"].Executor
	host.Kill()
	require.NoError(t, os.RemoveAll(filepath.Join(parts.Dir, "executor")))
	parts.LaunchOnHost("DROVER_EXECUTOR__ID=" + executor).AwaitReady()
	r := parts.AwaitPhase(id, "finished")
	require.Equal(t, api.Result("failed"), r.Result)
	for name, task := range r.Tasks {
		if strings.HasPrefix(name, "work") {
			require.Contains(t, task.Reason, "journal was lost", name)
		}
	}
	requireRanOnce(t, graph.Dir, 4)
}

// TestLoss_cloned starts an executor on a copy of the state dir of a running
// one. The copy refuses to start, and the tasks of the original are unaffected.
func TestLoss_cloned(t *testing.T) {
	t.Parallel()
	graph := harness.Tally{Dir: t.TempDir(), Tasks: 3, Steps: 2, Pause: "3"}
	parts := harness.StartParts(t, "4", nil)
	id := parts.Submit(graph.Spec("cloned")).ID
	harness.AwaitBegun(t, graph.Dir, 1+3)
	require.NoError(t, exec.Command("cp", "-a", filepath.Join(parts.Dir, "executor"), filepath.Join(parts.Dir, "clone")).Run())
	log, err := parts.AddExecutor("clone", "4").AwaitEnd()
	require.Error(t, err)
	require.Contains(t, log, "is a copy")
	r := parts.AwaitPhase(id, "finished")
	graph.Check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
}

// TestLoss_disk_full fills the file system of an executor's state dir. The
// executor takes no task and reports the reason, until there is space again.
func TestLoss_disk_full(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testenv.Missing(t, "namespaces", "not root", "run the tests as root, which may mount a small file system")
	}
	disk := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	parts := harness.StartParts(t, "4", map[harness.Part][]string{
		harness.Executor: {"DROVER_EXECUTOR__STATE_DIR=" + filepath.Join(disk, "executor")},
	})
	before := harness.Tally{Dir: t.TempDir(), Tasks: 2, Steps: 1, Pause: "15"}
	first := parts.Submit(before.Spec("while-it-filled")).ID
	harness.AwaitBegun(t, before.Dir, 1+2)
	// Wait until the executor removed the directory of prepare, and then its entry
	// in the journal: a removal after the disk is full would free space, and a task
	// launched then would fail for lack of space for its shim.
	testenv.Await(t, func() (bool, string) {
		tasks, err := os.ReadDir(filepath.Join(disk, "executor", "tasks"))
		require.NoError(t, err)
		entries, err := filepath.Glob(filepath.Join(disk, "executor", "journal", "*.jsonl"))
		require.NoError(t, err)
		return len(tasks) == 2 && len(entries) == 2, fmt.Sprintf("%d tasks have a directory, and %d an entry", len(tasks), len(entries))
	})
	fill(t, filepath.Join(disk, "filler"))
	after := harness.Tally{Dir: t.TempDir(), Tasks: 2, Steps: 1, Pause: "0"}
	second := parts.Submit(after.Spec("on-a-full-disk")).ID
	parts.Await(second, func(r api.Run) bool {
		return r.Tasks["prepare"].Status == "queued" && strings.Contains(r.Tasks["prepare"].Reason, "no space left")
	})
	require.NoError(t, os.Remove(filepath.Join(disk, "filler")))
	for id, graph := range map[string]harness.Tally{first: before, second: after} {
		r := parts.AwaitPhase(id, "finished")
		graph.Check(t, r, func(task, want string) { parts.AwaitLogs(id, task, want) })
	}
}

// fill creates a file that takes all free space of its file system.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			require.ErrorIs(t, err, unix.ENOSPC)
			size /= 2
		}
	}
}

// startOnHost starts all parts, with the executor as the first process of a PID
// namespace. When the executor ends, all processes that it started end too, as on
// a host that reboots.
func startOnHost(t *testing.T, slots string) (*harness.Parts, *harness.Process) {
	t.Helper()
	host := harness.HostCommand("true")
	if out, err := exec.Command(host[0], host[1:]...).CombinedOutput(); err != nil {
		testenv.Missing(t, "namespaces", err.Error()+": "+strings.TrimSpace(string(out)), "run the tests as root, with util-linux installed, and not in a chroot")
	}
	parts := harness.StartPartsWithout(t, slots)
	process := parts.LaunchOnHost()
	process.AwaitReady()
	parts.AwaitExecutor("online")
	return parts, process
}

// descendants returns the ids of a process and of all its descendants.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		lists, err := filepath.Glob("/proc/" + strconv.Itoa(all[i]) + "/task/*/children")
		require.NoError(t, err)
		for _, list := range lists {
			children, err := os.ReadFile(list)
			if err != nil {
				continue // the process has ended
			}
			for child := range strings.FieldsSeq(string(children)) {
				n, err := strconv.Atoi(child)
				require.NoError(t, err)
				all = append(all, n)
			}
		}
	}
	return all
}

// endedOf returns the ended tasks of a tally, except prepare.
func endedOf(r api.Run) []string {
	var names []string
	for name, task := range r.Tasks {
		switch task.Status {
		case "not_started", "queued", "running":
		default:
			if name != "prepare" {
				names = append(names, name)
			}
		}
	}
	return names
}

// requireRanOnce checks that the given number of steps ran, each once.
func requireRanOnce(t *testing.T, dir string, want int) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, want)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		require.Equal(t, "ran\n", string(data), "%s must have run exactly once", f.Name())
	}
}
