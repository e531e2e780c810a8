package archives

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// transferSpec is a run whose tasks each transfer one archive, after an approval. For
// each kind of archive, one task saves it and the next one restores it.
const transferSpec = `name: movers
group: /test/archives-%[3]d
tasks:
  save-workspace:
    approval: true
    %[1]s
    steps:
      - run: mkdir tree && head -c %[2]d /dev/urandom > tree/noise && (cd tree && sha256sum noise > sum)
      - save_workspace: {paths: [tree]}
  restore-workspace:
    approval: true
    depends: [save-workspace]
    %[1]s
    steps:
      - restore_workspace: {to: copy}
      - run: cd copy/tree && sha256sum -c sum
  save-cache:
    approval: true
    depends: [restore-workspace]
    %[1]s
    steps:
      - run: mkdir tree && head -c %[2]d /dev/urandom > tree/noise && (cd tree && sha256sum noise > sum)
      - save_cache: {key: "k-{{ os }}", paths: [tree]}
  restore-cache:
    approval: true
    depends: [save-cache]
    %[1]s
    steps:
      - restore_cache: {keys: ["k-"], to: copy}
      - run: cd copy/tree && sha256sum -c sum
  save-artifacts:
    approval: true
    depends: [restore-cache]
    %[1]s
    steps:
      - run: mkdir tree && head -c %[2]d /dev/urandom > tree/noise && sha256sum < tree/noise
      - save_artifacts: {name: tree, paths: [tree]}
`

// TestArchives_kill kills the executor or the gateway during every kind of
// transfer. The task succeeds, and no partial archive is visible.
func TestArchives_kill(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"shell", "docker"} {
		for _, target := range []harness.Part{harness.Executor, harness.Gateway} {
			t.Run(driver+"/"+string(target), func(t *testing.T) {
				t.Parallel()
				killDuringTransfers(t, driver, target)
			})
		}
	}
}

func killDuringTransfers(t *testing.T, driver string, target harness.Part) {
	t.Helper()
	once := filepath.Join(t.TempDir(), "once")
	require.NoError(t, os.WriteFile(once, nil, 0o600))
	env, where := []string{"DROVER_CHAOS_FREEZE=moving", "DROVER_CHAOS_ONCE=" + once}, "pool: shell"
	if driver == "docker" {
		testenv.RequireDocker(t)
		image := testenv.BusyboxImage(t, testenv.RequireDocker(t))
		env = append(env, "DROVER_EXECUTOR__DRIVER=docker", "DROVER_EXECUTOR__POOL=containers", "DROVER_EXECUTOR__DOCKER__NETWORK=none")
		where = "pool: containers\n    working_dir: /work/place\n    image: '" + image + "'"
	}
	parts := harness.StartParts(t, "1", map[harness.Part][]string{harness.Executor: env})
	size, rounds := 4<<20, 1
	if harness.Soak() {
		size, rounds = 64<<20, 10
	}
	for round := range rounds {
		id := parts.Submit(fmt.Sprintf(transferSpec, where, size, round)).ID // a group saves each cache key once
		for _, task := range []string{"save-workspace", "restore-workspace", "save-cache", "restore-cache", "save-artifacts"} {
			executor := parts.Processes[harness.Executor]
			harness.KillDuringTransfer(t, parts, once, id, task, func() *harness.Process { return harness.FirstFrozen(executor) }, func(*harness.Process) {
				parts.Processes[target].Kill()
				parts.Launch(target).AwaitReady()
				if target != harness.Executor {
					executor.Thaw()
				}
			})
		}
		r := parts.AwaitPhase(id, "finished")
		require.Equal(t, api.Result("success"), r.Result, harness.Describe(r))
		require.Contains(t, parts.Logs(id, "restore-workspace"), "noise: OK")
		require.Contains(t, parts.Logs(id, "restore-cache"), "restored cache k-linux")
		_, listed, err := parts.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+id+"/artifacts", "", "")
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(listed, `"save-artifacts"`), listed)
		status, content, err := parts.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+id+"/artifacts/save-artifacts/tree?path=tree/noise", "", "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Len(t, content, size)
	}
}

// garbage keeps Go from leaving much of it in memory, however much the machine does at once.
const garbage = "GOMEMLIMIT=128MiB"

// TestArchives_pipeline passes a small and then a large workspace through three hosts, two
// with containers and one with shells. The memory of no process grows by what the large
// one has more, nor by half of that.
func TestArchives_pipeline(t *testing.T) {
	t.Parallel()
	cli := testenv.RequireDocker(t)
	image := testenv.BusyboxImage(t, cli)
	small, large := 16<<20, 144<<20
	if harness.Soak() {
		large = 2 << 30
	}
	parts := harness.StartParts(t, "1", map[harness.Part][]string{harness.Gateway: {garbage}, harness.Executor: {garbage}})
	processes := map[string]*harness.Process{"gateway": parts.Processes[harness.Gateway], "executor": parts.Processes[harness.Executor]}
	for _, name := range []string{"one", "two"} {
		processes["executor "+name] = harness.NewMember(t, parts, name, garbage, "DROVER_EXECUTOR__DRIVER=docker", "DROVER_EXECUTOR__DOCKER__NETWORK=none",
			"DROVER_EXECUTOR__POOL="+name, "DROVER_EXECUTOR__SLOTS=1").Process
	}
	// A pool exists once an executor has registered with it.
	for _, pool := range []string{"one", "two"} {
		parts.AwaitPath("/api/v1/pools/"+pool, func(body string) bool { return strings.Contains(body, `"online":1`) })
	}
	passThrough := func(size int) map[string]int {
		shims := watchShims(t)
		passWorkspace(t, parts, image, size)
		peaks := shims()
		for name, p := range processes {
			peaks[name] = peakOf(strconv.Itoa(p.PID()))
			require.Positive(t, peaks[name], name)
		}
		return peaks
	}
	before, after := passThrough(small), passThrough(large)
	for name, peak := range after {
		t.Logf("%s: %d and %d MiB", name, before[name]>>20, peak>>20)
		require.Less(t, peak-before[name], (large-small)/2, name)
	}
}

// passWorkspace runs the tasks of the pipeline with a workspace of so many bytes.
func passWorkspace(t *testing.T, parts *harness.Parts, image string, size int) {
	t.Helper()
	container := "image: '" + image + "'\n    working_dir: /work/place"
	r := parts.AwaitPhase(parts.Submit(fmt.Sprintf(`name: pipeline
group: /test/pipeline
tasks:
  make:
    pool: one
    %[1]s
    steps:
      - run: head -c %[2]d /dev/urandom > noise; sha256sum noise > sum
      - save_workspace:
  turn:
    pool: two
    depends: [make]
    %[1]s
    steps:
      - restore_workspace:
      - run: sha256sum -c sum; mv noise turned
      - save_workspace: {paths: [turned], to: next}
  check:
    pool: shell
    depends: [turn]
    steps:
      - restore_workspace:
      - run: sha256sum -c sum; cmp noise next/turned; wc -c < next/turned
`, container, size)).ID, "finished")
	require.Equal(t, api.Result("success"), r.Result, harness.Describe(r))
	require.Contains(t, parts.Logs(r.ID, "check"), strconv.Itoa(size)+"\n")
}

// watchShims samples the memory of all shims of this machine, also those of
// other tests, until the returned function is called. That function returns the
// peak of each subcommand in bytes.
func watchShims(t *testing.T) func() map[string]int {
	t.Helper()
	peaks := make(map[string]int)
	stop := testenv.Watch(t, 50*time.Millisecond, func() {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range lines {
			text, err := os.ReadFile(file)
			args := strings.Split(string(text), "\x00")
			if err != nil || len(args) < 2 || filepath.Base(args[0]) != "drover-shim" && args[1] != "file-helper" {
				continue
			}
			name := "drover-shim " + args[1]
			peaks[name] = max(peaks[name], peakOf(filepath.Base(filepath.Dir(file))))
		}
	})
	return func() map[string]int {
		stop()
		return peaks
	}
}

// peakOf returns the peak memory of a process in bytes, 0 if it has ended.
func peakOf(pid string) int {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return kib << 10
		}
	}
	return 0
}
