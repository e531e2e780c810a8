package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/drover-run/drover/internal/retry"
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
	pauses := retry.Doubling(minReconnect, maxReconnect)
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		connected, err := b.listenOnce(ctx)
		if connected {
			pauses.Reset()
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, pause time.Duration) {
		b.logger.WarnContext(ctx, "failed to listen for changes, reconnecting", "retry_in", pause, "error", err)
	}))
}

// listenOnce receives until the connection is lost. heard reports that it was
// established.
func (b *backend) listenOnce(ctx context.Context) (connected bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, b.config.config(ctx))
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
