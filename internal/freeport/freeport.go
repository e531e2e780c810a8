// Package freeport finds TCP ports for listeners of programs that want a
// number, and cannot be handed a listener.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
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

// On returns a port of a host on which nobody listened a moment ago.
func On(ctx context.Context, host string) (int, error) {
	var faults error
	for range attempts {
		port := first + rand.IntN(last-first)
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		faults = err
		if ctx.Err() != nil {
			break
		}
	}
	return 0, errors.Join(fmt.Errorf("finding a free port of %s", host), faults)
}
