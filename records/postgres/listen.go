package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The listener reconnects after a pause that doubles from minReconnect to
// maxReconnect.
const (
	minReconnect = 100 * time.Millisecond
	maxReconnect = 5 * time.Second
	// keepAlive is how long a connection may be silent before it is pinged: a
	// peer that has vanished sends nothing.
	keepAlive = 30 * time.Second
)

// listen receives the notifications of other processes, until ctx ends.
func (b *backend) listen(ctx context.Context) {
	pause := minReconnect
	for {
		connected, err := b.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		b.logger.WarnContext(ctx, "failed to listen for changes, reconnecting", "error", err)
		if connected {
			pause = minReconnect
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(2*pause, maxReconnect)
	}
}

// listenOnce receives until the connection is lost. heard reports that it was
// established.
func (b *backend) listenOnce(ctx context.Context) (connected bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, b.config.Copy())
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return false, fmt.Errorf("listen: %w", err)
	}
	// Changes before the LISTEN are not known.
	b.hub.SignalAll()
	b.wakeUp()
	for {
		wait, cancel := context.WithTimeoutCause(ctx, keepAlive, context.DeadlineExceeded)
		n, err := conn.WaitForNotification(wait)
		silent := wait.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return true, ctx.Err()
		case err == nil:
			b.receive(n.Payload)
		case !silent || conn.IsClosed():
			return true, fmt.Errorf("wait for notification: %w", err)
		default:
			if err := conn.Ping(ctx); err != nil {
				return true, fmt.Errorf("ping: %w", err)
			}
		}
	}
}
