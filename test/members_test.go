package test

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

// member is an executor that chaos befalls.
type member struct {
	name  string
	start func() *harness.Process
	wires []*harness.Wire

	process *harness.Process
}

// newMember starts an executor that reaches the servers by wires of its own.
func newMember(t *testing.T, parts *harness.Parts, name string, env ...string) *member {
	t.Helper()
	wires, common := newWires(t, parts)
	env = append(append(common,
		"DROVER_EXECUTOR__ID="+name,
		"DROVER_EXECUTOR__STATE_DIR="+filepath.Join(parts.Dir, name),
	), env...)
	m := &member{name: name, wires: wires, start: func() *harness.Process { return harness.Start(t, parts.Dir, env, "executor") }}
	m.process = m.start()
	m.process.AwaitReady()
	return m
}

// newWires returns wires to Temporal and to the gateway, and the environment of
// an executor that is to use them.
func newWires(t *testing.T, parts *harness.Parts) (wires []*harness.Wire, env []string) {
	t.Helper()
	temporal, gateway := harness.NewWire(t, parts.Temporal()), harness.NewWire(t, strings.TrimPrefix(parts.Server, "http://"))
	return []*harness.Wire{temporal, gateway}, []string{
		"DROVER_TEMPORAL__ADDRESS=" + temporal.Address,
		"DROVER_EXECUTOR__GATEWAY_URL=http://" + gateway.Address,
		"DROVER_EXECUTOR__TOKEN_FILE=" + filepath.Join(parts.Dir, "executor.token"),
	}
}

// befall does one thing to the member and puts it right again.
func (m *member) befall(t *testing.T, during context.Context) string {
	t.Helper()
	things := []string{"kill", "kill", "restart", "cut from temporal", "cut from the gateway", "cut off", "freeze"}
	if len(m.wires) > 2 {
		things = append(things, "cut from the cluster", "cut from the cluster")
	}
	what := things[rand.IntN(len(things))]
	m.revive()
	switch what {
	case "kill":
		m.process.Kill()
		m.process = m.start()
	case "restart":
		m.stop(t)
		m.process = m.start()
	case "freeze":
		m.awaitReady(t)
		m.process.Freeze()
		somewhile(during)
		m.process.Thaw()
	default:
		cut := map[string][]*harness.Wire{
			"cut from temporal": m.wires[:1], "cut from the gateway": m.wires[1:2], "cut from the cluster": m.wires[2:], "cut off": m.wires,
		}[what]
		for _, w := range cut {
			w.Cut()
		}
		somewhile(during)
		for _, w := range cut {
			w.Mend()
		}
	}
	return what
}

// revive starts the member again where it has ended, as a Deployment does: one
// that can not reach its set when it starts does so.
func (m *member) revive() {
	if !m.process.Running() {
		m.process = m.start()
	}
}

// awaitReady waits until the member has come so far as to hear signals.
func (m *member) awaitReady(t *testing.T) {
	t.Helper()
	testenv.Await(t, 5*time.Minute, func() (bool, string) {
		m.revive()
		return m.process.Ready(), "executor " + m.name + " does not get ready"
	})
}

// stop ends the member as SIGTERM does.
func (m *member) stop(t *testing.T) {
	t.Helper()
	m.awaitReady(t)
	require.NoError(t, m.process.Stop(), "executor %s", m.name)
}

// somewhile lasts up to longer than the heartbeat timeout, mostly much shorter.
func somewhile(during context.Context) {
	span := time.Duration(1+rand.IntN(8)) * time.Second
	if rand.IntN(5) == 0 {
		span = pastHeartbeat
	}
	select {
	case <-during.Done():
	case <-time.After(span): // how long it is away, not what is waited for
	}
}

// torment has things befall the members at random, each by itself.
func torment(t *testing.T, during context.Context, members []*member) {
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
				case <-time.After(time.Duration(1+rand.IntN(6)) * time.Second): // between two blows
				}
				what := m.befall(t, during)
				mu.Lock()
				count[what]++
				mu.Unlock()
			}
		})
	}
	require.NoError(t, all.Wait())
	t.Logf("what befell %d executors: %v", len(members), count)
}

// TestMembers_chaos has tasks run in containers of several executors, and in pods
// of a set where there is a cluster, that are killed, restarted, frozen and cut
// off at random. The steps of each run once, every run ends with its true result,
// and nothing is left in the end.
func TestMembers_chaos(t *testing.T) {
	t.Parallel()
	daemon := testenv.RequireDocker(t)
	image := testenv.BusyboxImage(t, daemon)
	length, runs, tasks, patience := 100*time.Second, 6, 12, 5*time.Minute
	if soak() {
		// What was given back goes to the end of the line, so that even the first
		// run ends late.
		length, runs, tasks, patience = 10*time.Minute, 20, 25, 20*time.Minute
	}
	parts := harness.StartPartsWithout(t, "1")
	var members []*member
	suffix := strings.ToLower(filepath.Base(parts.Dir)) + fmt.Sprint(os.Getpid())
	for i := range 3 {
		members = append(members, newMember(t, parts, fmt.Sprintf("member-%d-%s", i, suffix),
			"DROVER_EXECUTOR__DRIVER=docker", "DROVER_EXECUTOR__POOL=containers", "DROVER_EXECUTOR__SLOTS=8"))
	}
	var pods *herd
	var began marks
	tormented, work := slices.Clone(members), works{image: image, tasks: tasks, mark: began.listen(t, bridgeAddress(t, daemon))}
	if os.Getenv(testenv.KubeconfigVariable) != "" {
		pods = openHerd(t, parts, "8")
		for i := range 3 {
			tormented = append(tormented, pods.newMember(fmt.Sprintf("pods-%d", i)))
		}
		work.podImage, work.pods, work.podMark = pods.cluster.Image, tasks/2, began.listen(t, pods.host())
		work.tasks -= work.pods
	}
	parts.AwaitExecutor("online")

	during, done := context.WithTimeout(t.Context(), length)
	defer done()
	ids := make([]string, 0, runs)
	for i := range runs {
		ids = append(ids, parts.Submit(work.spec(fmt.Sprintf("chaos-%d", i))).ID)
	}
	torment(t, during, tormented)
	for _, id := range ids {
		r := parts.AwaitPhase(id, "finished", patience)
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
		pods.requireCleanBut(len(tormented) - len(members))
	}
	for _, m := range members {
		// Keys that were given back are remembered until a sweep finds them closed.
		testenv.Await(t, 2*time.Minute, func() (bool, string) {
			left, err := filepath.Glob(filepath.Join(parts.Dir, m.name, "journal", "*.jsonl"))
			require.NoError(t, err)
			return len(left) == 0, fmt.Sprintf("the journal of %s has %v", m.name, left)
		})
	}
	for _, m := range tormented {
		m.stop(t)
	}
	if pods != nil {
		pods.requireCleanBut(0)
	}
}

// works is what the runs of a torment do.
type works struct {
	image, podImage string
	mark, podMark   string // commands
	tasks, pods     int    // of each image
}

// spec is a run of tasks of 2 to 20 seconds, 5 to 30 in a soak, and of one that
// fails.
func (w works) spec(name string) string {
	seconds := func() int { return 2 + rand.IntN(18) }
	if soak() {
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

// requireNothingLeft waits until no container, network or volume of the
// members is there.
func requireNothingLeft(t *testing.T, daemon *dockerclient.Client, members []*member) {
	t.Helper()
	testenv.Await(t, 2*time.Minute, func() (bool, string) {
		var left []string
		for _, m := range members {
			of := filters.NewArgs(filters.Arg("label", "drover.executor="+m.name))
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
		return len(left) == 0, "there is left: " + string(text)
	})
}
