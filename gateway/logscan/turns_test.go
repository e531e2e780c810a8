package logscan_test

import (
	"context"
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
		turns := logscan.NewTurns()
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
