package kill

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// powerSpec is a run whose steps append a line to a file outside of the disk when
// they begin.
const powerSpec = `name: power
group: /test/power
environment: {MARKS: %q}
tasks:
  first:
    steps:
      - run: 'echo ran >> $MARKS/$DROVER_RUN_ID.$DROVER_TASK_NAME.$DROVER_TASK_ATTEMPT; echo one; sleep 0.2; echo two'
      - run: 'mkdir tree && echo $DROVER_RUN_ID > tree/file'
      - save_artifacts: {name: tree, paths: [tree]}
  second:
    depends: [first]
    steps:
      - run: 'echo ran >> $MARKS/$DROVER_RUN_ID.$DROVER_TASK_NAME.$DROVER_TASK_ATTEMPT; echo one; sleep 0.2; echo two'
      - run: 'mkdir tree && echo $DROVER_RUN_ID > tree/file'
      - save_artifacts: {name: tree, paths: [tree]}
`

// TestPowerLoss keeps all state of `drover dev` on a disk that loses power at
// random moments. Afterwards all state that a client has read is still there, no
// steps begin twice, and all runs end.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	rounds := 2
	if harness.Soak() {
		rounds = 50
	}
	disk := testenv.RequireDisk(t)
	host := harness.HostCommand("true")
	if out, err := exec.Command(host[0], host[1:]...).CombinedOutput(); err != nil {
		testenv.Missing(t, "namespaces", err.Error()+": "+strings.TrimSpace(string(out)), "run the tests as root, with util-linux installed, and not in a chroot")
	}
	marks := t.TempDir()
	dev := harness.StartDevOnHost(t, filepath.Join(disk.Dir, "data"), []string{"DROVER_DEV__SLOTS=8"}, "--executor", "shell")
	for round := range rounds {
		observed := &observedState{facts: map[fact]string{}}
		stop := observed.watch(t, dev.Client, fmt.Sprintf(powerSpec, marks))
		facts := 1 + rand.IntN(80)
		testenv.Await(t, func() (bool, string) {
			n := observed.count()
			return n >= facts, fmt.Sprintf("%d facts of %d", n, facts)
		})
		dev.Kill() // first: a sync during the loss of power may succeed without effect
		disk.CutPower()
		stop()
		disk.RestorePower()
		t.Logf("round %d: the power was cut after %d facts", round, observed.count())
		dev.Restart()
		observed.check(t, dev.Client)
		requireMarkedOnce(t, marks)
	}
}

// requireMarkedOnce checks that no steps began twice. The tasks have no retries.
func requireMarkedOnce(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		require.Equal(t, "ran\n", string(data), "the steps of %s began twice", f.Name())
	}
}

// fact names a piece of state of a run, or of one of its tasks, that a client has
// read.
type fact struct{ run, task, kind string }

// observedState holds the state that clients have read. It must survive a loss of power.
type observedState struct {
	mu    sync.Mutex
	facts map[fact]string
}

func (w *observedState) add(f fact, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts[f] = value
}

func (w *observedState) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.facts)
}

// watch starts clients that create runs and read them until stop is called.
func (w *observedState) watch(t *testing.T, c *harness.Client, spec string) (stop func()) {
	t.Helper()
	const clients = 4
	ctx, cancel := context.WithCancelCause(t.Context())
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				status, body, err := c.Do(ctx, http.MethodPost, "/api/v1/runs", "application/yaml", spec)
				var r api.Run
				if err != nil || status != http.StatusCreated || json.Unmarshal([]byte(body), &r) != nil {
					return
				}
				w.add(fact{r.ID, "", "run"}, "")
				for w.read(ctx, c, r.ID) {
				}
			}
		})
	}
	return func() {
		cancel(nil)
		all.Wait()
	}
}

// read records the state of a run that a client reads. It returns false if the
// run has finished or a call failed.
func (w *observedState) read(ctx context.Context, c *harness.Client, id string) bool {
	get := func(path string) (string, bool) {
		status, body, err := c.Do(ctx, http.MethodGet, "/api/v1/runs/"+id+path, "", "")
		return body, err == nil && status == http.StatusOK
	}
	var r api.Run
	body, ok := get("")
	if !ok || json.Unmarshal([]byte(body), &r) != nil {
		return false
	}
	var list struct {
		Artifacts []api.Artifact `json:"artifacts"`
	}
	if body, ok := get("/artifacts"); ok && json.Unmarshal([]byte(body), &list) == nil {
		for _, a := range list.Artifacts {
			w.add(fact{id, a.Task, "artifact"}, a.Digest)
		}
	}
	for name, task := range r.Tasks {
		if task.Executor == "" {
			continue
		}
		w.add(fact{id, name, "executor"}, task.Executor)
		if log, ok := get("/tasks/" + name + "/logs"); ok {
			w.add(fact{id, name, "log"}, log)
		}
		if task.Status == "success" || task.Status == "failed" {
			w.add(fact{id, name, "ended"}, string(task.Status))
		}
	}
	return r.Phase != "finished"
}

// check waits until all runs have ended, and fails the test unless all recorded
// state still holds.
func (w *observedState) check(t *testing.T, c *harness.Client) {
	t.Helper()
	runs := map[string]api.Run{}
	for f := range w.facts {
		if f.kind == "run" {
			runs[f.run] = c.AwaitPhase(f.run, "finished")
		}
	}
	for f, value := range w.facts {
		task := runs[f.run].Tasks[f.task]
		switch f.kind {
		case "executor":
			require.Equal(t, value, task.Executor, "%+v", f)
		case "ended":
			require.Equal(t, value, string(task.Status), "%+v", f)
		case "log":
			status, log, err := c.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+f.run+"/tasks/"+f.task+"/logs", "", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status, log)
			require.True(t, strings.HasPrefix(log, value), "the log of %+v was %q and is %q", f, value, log)
		case "artifact":
			status, file, err := c.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+f.run+"/artifacts/"+f.task+"/tree?path=tree/file", "", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status, "%+v: %s", f, file)
			require.Equal(t, f.run+"\n", file)
		}
	}
}
