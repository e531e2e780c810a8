package freeport_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/freeport"
)

func TestOn(t *testing.T) {
	t.Parallel()
	port, err := freeport.On(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	require.Less(t, port, 32768, "ephemeral ports begin here")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	require.NoError(t, err)
	require.NoError(t, l.Close())

	_, err = freeport.On(t.Context(), "not a host")
	require.ErrorContains(t, err, "find a free port of not a host")
}

func TestOn_gives_no_port_twice(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 400 { // of 17,000 ports: without reservations some would repeat
		port, err := freeport.On(t.Context(), "127.0.0.1")
		require.NoError(t, err)
		require.False(t, seen[port], port)
		seen[port] = true
	}
}
