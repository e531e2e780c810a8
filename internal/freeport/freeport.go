// Package freeport finds TCP ports for listeners of programs that want a
// number, and cannot be handed a listener.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// The ports to choose from: below those that systems give to outgoing
// connections. One of these may be taken by a connection of anybody before the
// program listens, which happens on a busy machine.
const (
	first = 15_000
	last  = 32_000
)

// attempts bounds the search; nearly always the first port is free.
const attempts = 100

// On returns a port of a host on which nobody listened a moment ago. On Linux
// no other call, in whatever process, returns it while this process lives.
func On(ctx context.Context, host string) (int, error) {
	var faults error
	for range attempts {
		port := first + rand.IntN(last-first)
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			err = l.Close()
		}
		if err == nil && reserve(ctx, port) {
			return port, nil
		}
		faults = errors.Join(errors.New("others have all that were tried"), err)
		if ctx.Err() != nil {
			break
		}
	}
	return 0, errors.Join(fmt.Errorf("finding a free port of %s", host), faults)
}

// held has what is reserved, until the process ends.
var held struct { //nolint:gochecknoglobals // it is of the process, as ports are
	sync.Mutex
	sockets []net.Listener
}

// reserve keeps a port from whoever else looks for one this way: it may take
// long until somebody listens on it. The name of an abstract socket stands for
// it, which is of a network namespace, like ports, and goes with the process.
func reserve(ctx context.Context, port int) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	socket, err := (&net.ListenConfig{}).Listen(ctx, "unix", fmt.Sprintf("@drover-port-%d", port))
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	held.Lock()
	defer held.Unlock()
	held.sockets = append(held.sockets, socket)
	return true
}
