package recordstest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// race calls fn n times concurrently and returns how many calls succeeded. The
// others must fail with the code.
func race(t *testing.T, n int, fn func(i int) error, code run.Code) int {
	t.Helper()
	var wins atomic.Int64
	var all sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		all.Go(func() {
			<-begin
			if errs[i] = fn(i); errs[i] == nil {
				wins.Add(1)
			}
		})
	}
	close(begin)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			requireCode(t, code, err)
		}
	}
	require.Positive(t, wins.Load())
	return int(wins.Load())
}
