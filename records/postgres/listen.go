package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A connection that was lost is made again after a pause that doubles from
// minReconnect to maxReconnect.
const (
	minReconnect = 100 * time.Millisecond
	maxReconnect = 5 * time.Second
	// keepAlive is how long a connection may be silent before it is tried: a
	// peer that has vanished says nothing.
	keepAlive = 30 * time.Second
)

// listen hears what other processes have changed, until ctx ends.
func (b *backend) listen(ctx context.Context) {
	pause := minReconnect
	for {
		heard, err := b.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		b.logger.WarnContext(ctx, "listening for changes failed, connecting again", "error", err)
		if heard {
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

// listenOnce hears until the connection is lost. heard says that it was there.
func (b *backend) listenOnce(ctx context.Context) (heard bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, b.config.Copy())
	if err != nil {
		return false, fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return false, fmt.Errorf("listening: %w", err)
	}
	// What happened while nobody listened is not known.
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
			b.hear(n.Payload)
		case !silent || conn.IsClosed():
			return true, fmt.Errorf("waiting: %w", err)
		default:
			if err := conn.Ping(ctx); err != nil {
				return true, fmt.Errorf("trying the connection: %w", err)
			}
		}
	}
}
