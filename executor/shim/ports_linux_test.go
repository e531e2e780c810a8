package shim_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim"
)

func TestAwaitPort(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("this host does not have %s: %v", address, err)
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		got, err := shim.AwaitPort(t.Context(), []int{1, port})
		require.NoError(t, err)
		require.Equal(t, port, got)
		require.NoError(t, l.Close())

		// Another process of this host may have taken the port meanwhile.
		var closed error
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, closed = shim.AwaitPort(ctx, []int{port})
			cancel()
			if closed != nil {
				break
			}
			l, err := net.Listen("tcp", address)
			require.NoError(t, err)
			port = l.Addr().(*net.TCPAddr).Port
			require.NoError(t, l.Close())
		}
		require.ErrorIs(t, closed, context.DeadlineExceeded)
	}
}
