// Package freeport finds TCP ports for programs that accept a port number but no
// open listener.
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

// The range of the ports. It is below the ephemeral ports: on a busy machine, an
// outgoing connection of any process may take one of those before the program
// listens.
const (
	first = 15_000
	last  = 32_000
)

// attempts bounds the search; nearly always the first port is free.
const attempts = 100

// On returns a port of a host on which no process listened a moment ago. On Linux
// no other call, in this or another process, returns that port while this process
// lives.
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
		faults = errors.Join(errors.New("all ports that were tried are in use"), err)
		if ctx.Err() != nil {
			break
		}
	}
	return 0, errors.Join(fmt.Errorf("find a free port of %s", host), faults)
}

// held keeps the reservations open until the process ends.
var held struct { //nolint:gochecknoglobals // ports belong to the process
	sync.Mutex
	sockets []net.Listener
}

// reserve reports whether it could reserve a port against other users of this
// package: it may take long until a program listens on the port. The reservation
// is the name of an abstract socket, which belongs to a network namespace, as ports
// do, and disappears with the process.
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
