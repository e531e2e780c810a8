package set

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	dockerclient "github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// injectFaults injects random faults into each member, independently of the others,
// until during ends.
func injectFaults(t *testing.T, during context.Context, members []*harness.Member) {
	t.Helper()
	var mu sync.Mutex
	count := map[string]int{}
	var all errgroup.Group
	for _, m := range members {
		all.Go(func() error {
			for {
				select {
				case <-during.Done():
					return nil
				case <-time.After(time.Duration(1+rand.IntN(6)) * time.Second): //nolint:forbidigo // between two faults
				}
				name := m.InjectFault(t, during)
				mu.Lock()
				count[name]++
				mu.Unlock()
			}
		})
	}
	require.NoError(t, all.Wait())
	t.Logf("faults of %d executors: %v", len(members), count)
}

// TestMembers_chaos runs tasks in containers of several executors, and with a
// cluster also in pods of an executor set. It kills, restarts, freezes and cuts
// off the executors at random. The steps of each task run once, every run ends
// with the correct result, and no resource is left.
func TestMembers_chaos(t *testing.T) {
	t.Parallel()
	daemon := testenv.RequireDocker(t)
	image := testenv.BusyboxImage(t, daemon)
	length, runs, tasks := 100*time.Second, 6, 12
	if harness.Soak() {
		// A requeued task goes to the end of the queue, so even the first run ends
		// late.
		length, runs, tasks = 10*time.Minute, 20, 25
	}
	parts := harness.StartPartsWithout(t, "1")
	var members []*harness.Member
	suffix := strings.ToLower(filepath.Base(parts.Dir)) + fmt.Sprint(os.Getpid())
	for i := range 3 {
		members = append(members, harness.NewMember(t, parts, fmt.Sprintf("member-%d-%s", i, suffix),
			"DROVER_EXECUTOR__DRIVER=docker", "DROVER_EXECUTOR__POOL=containers", "DROVER_EXECUTOR__SLOTS=8"))
	}
	var pods *executorSet
	var began marks
	allMembers, work := slices.Clone(members), chaosWorkload{image: image, tasks: tasks, mark: began.listen(t, harness.BridgeAddress(t, daemon))}
	if os.Getenv(testenv.KubeconfigVariable) != "" {
		pods = openExecutorSet(t, parts, "8")
		for i := range 3 {
			allMembers = append(allMembers, pods.newMember(fmt.Sprintf("pods-%d", i)))
		}
		work.podImage, work.pods, work.podMark = pods.cluster.Image, tasks/2, began.listen(t, pods.host())
		work.tasks -= work.pods
	}
	parts.AwaitExecutor("online")

	during, done := context.WithTimeout(t.Context(), length) //nolint:forbidigo // the length of the chaos
	defer done()
	ids := make([]string, 0, runs)
	for i := range runs {
		ids = append(ids, parts.Submit(work.spec(fmt.Sprintf("chaos-%d", i))).ID)
	}
	injectFaults(t, during, allMembers)
	for _, id := range ids {
		r := parts.AwaitPhase(id, "finished")
		require.Equal(t, "failed", string(r.Result), "one task fails by itself: %s", harness.Describe(r))
		for name, task := range r.Tasks {
			want := "success"
			if name == "fails" {
				want = "failed"
			}
			require.Equal(t, want, string(task.Status), "%s of %s: %s", name, id, task.Reason)
			if name == "fails" {
				require.Equal(t, 3, *task.ExitCode)
				continue
			}
			parts.AwaitLogs(id, name, "begin\nend\n")
		}
	}
	requireNothingLeft(t, daemon, members)
	began.requireOnce(t, runs*(work.tasks+1+work.pods))
	if pods != nil {
		pods.requireOnce()
		pods.requireCleanBut(len(allMembers) - len(members))
	}
	for _, m := range members {
		// The journal keeps requeued keys until garbage collection finds them closed.
		testenv.Await(t, func() (bool, string) {
			left, err := filepath.Glob(filepath.Join(parts.Dir, m.Name, "journal", "*.jsonl"))
			require.NoError(t, err)
			return len(left) == 0, fmt.Sprintf("the journal of %s has %v", m.Name, left)
		})
	}
	for _, m := range allMembers {
		m.Stop(t)
	}
	if pods != nil {
		pods.requireCleanBut(0)
	}
}

// chaosWorkload describes the runs of TestMembers_chaos.
type chaosWorkload struct {
	image, podImage string
	mark, podMark   string // commands that report a start, see marks.listen
	tasks, pods     int    // number of tasks with image and with podImage
}

// spec returns a run with tasks of 2 to 19 s, 5 to 30 s in a soak, and one task
// that fails.
func (w chaosWorkload) spec(name string) string {
	seconds := func() int { return 2 + rand.IntN(18) }
	if harness.Soak() {
		seconds = func() int { return 5 + rand.IntN(26) }
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\ngroup: /test/members\ntasks:\n", name)
	fmt.Fprintf(&b, "  fails: {pool: containers, image: %q, steps: [{run: '%s; sleep 3; exit 3'}]}\n", w.image, w.mark)
	for i := range w.tasks {
		fmt.Fprintf(&b, "  work-%d: {pool: containers, image: %q, steps: [{run: 'echo begin; %s; sleep %d; echo end'}]}\n", i, w.image, w.mark, seconds())
	}
	for i := range w.pods {
		fmt.Fprintf(&b, "  pod-%d: {pool: blue, image: %q, pull_policy: never, steps: [{run: 'echo begin; %s; sleep %d; echo end'}]}\n", i, w.podImage, w.podMark, seconds())
	}
	return b.String()
}

// requireNothingLeft waits until no container or volume of the members exists.
func requireNothingLeft(t *testing.T, daemon *dockerclient.Client, members []*harness.Member) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		var left []string
		for _, m := range members {
			of := filters.NewArgs(filters.Arg("label", "drover.executor="+m.Name))
			containers, err := daemon.ContainerList(t.Context(), container.ListOptions{All: true, Filters: of})
			require.NoError(t, err)
			for _, c := range containers {
				left = append(left, c.Names...)
			}
			volumes, err := daemon.VolumeList(t.Context(), volume.ListOptions{Filters: of})
			require.NoError(t, err)
			for _, v := range volumes.Volumes {
				left = append(left, v.Name)
			}
		}
		text, _ := json.Marshal(left)
		return len(left) == 0, "resources are left: " + string(text)
	})
}
