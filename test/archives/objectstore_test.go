package archives

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestObjectStore runs Drover with its blobs in a real S3-compatible server. It
// reads a log while a task writes it, and again after the gateway was killed and
// restarted.
func TestObjectStore(t *testing.T) {
	t.Parallel()
	bucket := testenv.RequireS3(t)
	env := []string{"DROVER_BLOBS__URL=" + bucket.URL}
	for key, value := range bucket.Environment {
		env = append(env, key+"="+value)
	}
	p := harness.StartParts(t, "2", map[harness.Part][]string{harness.Gateway: env, harness.Control: env})
	gate := filepath.Join(t.TempDir(), "go")
	id := p.Submit(fmt.Sprintf("name: stored\ngroup: /object/store\ntasks:\n"+
		"  talk: {pool: shell, steps: [{run: 'echo first; while [ ! -e %s ]; do sleep 0.1; done; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done'}]}\n"+
		"  quiet: {pool: shell, steps: [{run: 'true'}]}\n", gate)).ID
	p.AwaitLogs(id, "talk", "first\n")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	done := p.AwaitPhase(id, api.PhaseFinished)
	require.EqualValues(t, "success", done.Result)
	want := []string{"first"}
	for i := range 2000 {
		want = append(want, fmt.Sprintf("line %d", i))
	}
	whole := strings.Join(want, "\n") + "\n"
	p.AwaitLogs(id, "talk", whole)

	p.Processes[harness.Gateway].Kill()
	p.Launch(harness.Gateway).AwaitReady()
	require.Equal(t, whole, p.Logs(id, "talk"))
	require.DirExists(t, filepath.Join(bucket.Dir, "logs", id), "the server stores the logs")
	require.NoDirExists(t, filepath.Join(p.Dir, "blobs"))
}
