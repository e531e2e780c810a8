package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// TestTwoOfEach kills one of two gateways and one of two control workers, on
// PostgreSQL, while clients create runs. No run or event is lost, duplicated or
// out of order.
func TestTwoOfEach(t *testing.T) {
	t.Parallel()
	total := 400
	if harness.Soak() {
		total = 2000
	}
	parts := harness.StartPairs(t, "16", testenv.RequirePostgres(t))
	c := harness.NewClientPool(t, parts.Client, parts.Second())
	tally := filepath.Join(t.TempDir(), "tally")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 8*time.Minute, errors.New("the test took too long")) //nolint:forbidigo // the whole test, which prints its state then
	defer cancel()

	ids := make([]string, total)
	var next, created atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= total {
					return
				}
				status, text := c.Call(ctx, http.MethodPost, "/runs", fmt.Sprintf("pairs-%d", i), fmt.Sprintf(
					`{"name": "pairs", "group": "/test/pairs", "tasks": {"t": {"steps": [{"run": "echo $DROVER_RUN_ID >> %s"}]}}}`, tally))
				var r api.Run
				if status == http.StatusCreated && json.Unmarshal([]byte(text), &r) == nil {
					ids[i] = r.ID
				}
				created.Add(1)
			}
		})
	}
	for i, part := range []harness.Part{harness.Gateway2, harness.Control} {
		testenv.Await(t, func() (bool, string) {
			n := created.Load()
			return n >= int64(total*(i+1)/3), fmt.Sprintf("%d runs were created", n)
		})
		t.Logf("killing %s after %d runs", part, created.Load())
		parts.Processes[part].Kill()
	}
	all.Wait()
	c.AwaitNoOpenRuns(ctx, nil)

	runs := c.List(ctx, "")
	require.Len(t, runs, total, "no run is lost or duplicated")
	known := map[string]bool{}
	for _, r := range runs {
		known[r.ID] = true
		require.Equal(t, "success", string(r.Result), r.ID)
	}
	for i, id := range ids {
		require.True(t, known[id], "run %d (%s) exists", i, id)
	}
	data, err := os.ReadFile(tally)
	require.NoError(t, err)
	steps := map[string]int{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n") {
		steps[line]++
	}
	require.Len(t, steps, total)
	for id, n := range steps {
		require.Equal(t, 1, n, "the step of run %s ran once", id)
	}
	ended := 0
	harness.CheckOrder(t, c.Events(ctx, func(e api.Event) bool {
		if e.Type == "run" && run.Phase(e.Phase).Final() {
			ended++
		}
		return ended == total
	}))
}
