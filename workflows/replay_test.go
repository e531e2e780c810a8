package workflows_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/workflows"
)

// version is the version of the workflows' logic, and the directory of new
// histories. Every change that uses workflow.GetVersion increments it. The
// histories of all versions stay, unchanged, and must always replay.
const version = "v2"

// stored counts the histories, so that a missing one is noticed.
var stored = map[string]int{
	"run/v1": 54, "task-batch/v1": 24, "webhook/v1": 3, "scheduled-run/v1": 4, "change-group/v1": 4, "retention/v1": 3, "executor/v1": 3,
	"fleet/v1": 5,
	// Workflows close with the outcome of their run.
	"run/v2": 57, "task-batch/v2": 24, "webhook/v2": 3, "scheduled-run/v2": 4, "change-group/v2": 4, "retention/v2": 3, "executor/v2": 3,
	"fleet/v2": 5,
}

var update = flag.Bool("update-histories", false, "store the histories of scenarios that have none in this version")

const corpus = "testdata/replay"

// TestServer plays the scenarios on a real server. With -update-histories it
// stores their histories if no file exists yet. A released history is never
// recorded again.
func TestServer(t *testing.T) {
	t.Parallel()
	f := newCluster(t)
	t.Run("waiting", f.runWaitingScenarios)
	t.Run("change-groups", f.runGroupScenarios)
	t.Run("retention", f.runRetentionScenario)
	t.Run("expiry", f.runExpiryScenario)
	t.Run("executors", f.runExecutorScenarios)
	t.Run("fleets", f.runFleetScenarios)
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range scenarios() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				if s.slow && testing.Short() {
					t.Skip("waits for heartbeats to time out")
				}
				g := f.startScenario(t, s)
				s.drive(g)
				g.keep(s)
			})
		}
	})
}

// keep checks the number of histories that a scenario left and that each of
// them replays. With -update-histories it stores them.
func (g *scenarioRun) keep(s scenario) {
	g.t.Helper()
	histories := g.f.histories(g.t, contract.RunWorkflowID(g.id))
	require.Len(g.t, histories, max(1, s.executions))
	for i, h := range histories {
		name := s.name
		if len(histories) > 1 {
			name = fmt.Sprintf("%s-%d", s.name, i+1)
		}
		g.keepOne(contract.RunWorkflow, name, h)
	}
	for n := 1; n <= s.batches; n++ {
		for _, h := range g.f.histories(g.t, contract.BatchWorkflowID(g.id, n)) {
			g.keepOne(contract.BatchWorkflow, fmt.Sprintf("%s-%d", s.name, n), h)
		}
	}
}

func (g *scenarioRun) keepOne(workflowType, name string, h *historypb.History) {
	g.t.Helper()
	g.t.Logf("%s %s: %d events", workflowType, name, len(h.Events))
	plain, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	require.NoError(g.t, err)
	// A replay modifies the history's first event, so the history is marshalled
	// before.
	require.NoError(g.t, newReplayer(g.t).ReplayWorkflowHistory(log.NewStructuredLogger(discardLogger()), h))
	dir := filepath.Join(corpus, workflowType, version)
	file := filepath.Join(dir, name+".json.gz")
	if _, err := os.Stat(file); !*update || err == nil {
		return
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	require.NoError(g.t, err)
	_, err = z.Write(plain)
	require.NoError(g.t, err)
	require.NoError(g.t, z.Close())
	require.NoError(g.t, os.MkdirAll(dir, 0o755))
	require.NoError(g.t, os.WriteFile(file, packed.Bytes(), 0o644))
}

func newReplayer(t testing.TB) worker.WorkflowReplayer {
	t.Helper()
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableRegistrationAliasing: true})
	require.NoError(t, err)
	r.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: contract.RunWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Batch, workflow.RegisterOptions{Name: contract.BatchWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Webhook, workflow.RegisterOptions{Name: contract.WebhookWorkflow})
	r.RegisterWorkflowWithOptions(workflows.ChangeGroup, workflow.RegisterOptions{Name: contract.ChangeGroupWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Retention, workflow.RegisterOptions{Name: contract.RetentionWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Executor, workflow.RegisterOptions{Name: contract.ExecutorWorkflow})
	r.RegisterWorkflowWithOptions(workflows.Fleet, workflow.RegisterOptions{Name: contract.FleetWorkflow})
	r.RegisterWorkflowWithOptions(workflows.ScheduledRun, workflow.RegisterOptions{Name: contract.ScheduledRunWorkflow})
	return r
}

// TestReplay replays every stored history with this build.
func TestReplay(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the histories are being written")
	}
	found := map[string]int{}
	err := filepath.WalkDir(corpus, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		dir, err := filepath.Rel(corpus, filepath.Dir(path))
		require.NoError(t, err)
		found[filepath.ToSlash(dir)]++
		t.Run(strings.TrimSuffix(filepath.ToSlash(filepath.Join(dir, entry.Name())), ".json.gz"), func(t *testing.T) {
			t.Parallel()
			h := readHistory(t, path)
			begin := time.Now()
			require.NoError(t, newReplayer(t).ReplayWorkflowHistory(log.NewStructuredLogger(discardLogger()), h))
			t.Logf("%d events in %s", len(h.Events), time.Since(begin))
		})
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, stored, found)
}

func readHistory(t *testing.T, path string) *historypb.History {
	t.Helper()
	packed, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = packed.Close() }()
	z, err := gzip.NewReader(packed)
	require.NoError(t, err)
	plain, err := io.ReadAll(z)
	require.NoError(t, err)
	h, err := client.HistoryFromJSON(bytes.NewReader(plain), client.HistoryJSONOptions{})
	require.NoError(t, err)
	return h
}
