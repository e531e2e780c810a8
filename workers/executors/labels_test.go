package executors

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLabelWorkers: the workers for sets of labels have a bound, however fast sets come and
// go. Those in use stay, and those that were in use last.
func TestLabelWorkers(t *testing.T) {
	t.Parallel()
	ws, now := labelWorkers{}, time.Now()
	running := map[string]bool{}
	use := func(labels ...string) {
		t.Helper()
		ws.use(labels, now, func(id string) context.CancelCauseFunc {
			require.False(t, running[id], "it is started once")
			running[id] = true
			return func(error) { delete(running, id) }
		})
		require.Len(t, ws, len(running))
		require.LessOrEqual(t, len(running), maxLabelWorkers)
		for _, id := range labels {
			require.True(t, running[id], id)
		}
		now = now.Add(time.Second)
	}
	round := func(i int) (labels []string) {
		for k := range 99 {
			labels = append(labels, strconv.Itoa(i)+"/"+strconv.Itoa(k))
		}
		return append(labels, "steady")
	}
	for i := range 300 {
		use(round(i)...)
	}
	require.Len(t, running, maxLabelWorkers)
	for i := 299; i > 299-10; i-- {
		for _, id := range round(i) {
			require.True(t, running[id], "%s was in use a moment ago", id)
		}
	}

	// While there are many, a worker ends two minutes after its last use, else after ten.
	use("steady")
	now = now.Add(labelsCrowded)
	use("steady")
	require.Len(t, running, 1)
	use(round(300)...)
	use("steady")
	now = now.Add(labelsUnused - 2*time.Second)
	use("steady")
	require.Len(t, running, 100)
	now = now.Add(time.Second)
	use("other", "steady")
	require.ElementsMatch(t, []string{"other", "steady"}, slices.Collect(maps.Keys(running)))
	use()
	now = now.Add(labelsUnused)
	use()
	require.Empty(t, running)
}
