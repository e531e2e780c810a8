package logscan_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway/logscan"
	"github.com/drover-run/drover/run"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := logscan.NewTurns(8)
		begin := func(caller string) func() {
			t.Helper()
			end, err := turns.Begin(t.Context(), caller)
			require.NoError(t, err)
			return end
		}
		busy := func(caller string) {
			t.Helper()
			begun := time.Now()
			_, err := turns.Begin(t.Context(), caller)
			require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
			require.Equal(t, 10*time.Second, time.Since(begun))
		}
		first, second := begin("a"), begin("a")
		busy("a")
		third := begin("b")
		first()
		first() // a turn ends once
		first = begin("a")
		fourth := begin("c")
		busy("b")
		busy("d")

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := turns.Begin(ctx, "d")
		require.Equal(t, run.CodeCanceled, run.CodeOf(err))

		done := make(chan struct{})
		go func() {
			defer close(done)
			begin("d")()
		}()
		synctest.Wait()
		second()
		<-done // the turn that ended
		for _, end := range []func(){first, third, fourth} {
			end()
		}
		for _, caller := range []string{"a", "a", "b", "b"} {
			defer begin(caller)()
		}
		busy("c")
	})
}

// TestTurns_of_cpus has scans take half of the CPUs, up to four, and a caller half of
// these.
func TestTurns_of_cpus(t *testing.T) {
	t.Parallel()
	for cpus, want := range map[int]struct{ all, caller int }{
		1: {1, 1}, 2: {1, 1}, 3: {1, 1}, 4: {2, 1}, 6: {3, 1}, 8: {4, 2}, 64: {4, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			// taken counts the turns until one does not begin.
			taken := func(caller func(n int) string) (n int) {
				turns := logscan.NewTurns(cpus)
				for ; ; n++ {
					end, err := turns.Begin(t.Context(), caller(n))
					if err != nil {
						require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
						return n
					}
					defer end()
				}
			}
			require.Equal(t, want.all, taken(strconv.Itoa), "%d CPUs", cpus)
			require.Equal(t, want.caller, taken(func(int) string { return "a" }), "%d CPUs", cpus)
		})
	}
}
