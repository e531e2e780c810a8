package sqlite

import (
	"context"
	"time"
)

// pollInterval is how often a process looks for commits of others: SQLite has
// no way to tell of them.
const pollInterval = 100 * time.Millisecond

// poll wakes everybody after commits of other processes, until ctx ends. It
// looks only while somebody waits. The connection that writes is asked,
// because to it alone the commits of this process are no changes. last is what
// it said before anybody could wait.
func (b *backend) poll(ctx context.Context, last int64) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if !b.hub.Waited() {
			ticker.Stop()
			select {
			case <-ctx.Done():
				return
			case <-b.hub.Wanted():
				ticker.Reset(pollInterval)
			}
		}
		// Commits from before somebody waited wake too: once for nothing.
		if v := b.dataVersion(ctx); v != last {
			last = v
			b.hub.SignalAll()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// dataVersion returns a number that changes with the commits of others, 0 if
// it cannot be read.
func (b *backend) dataVersion(ctx context.Context) int64 {
	var v int64
	err := use(ctx, b.writer, func(s *session) error {
		if err := s.connect(ctx); err != nil {
			return err
		}
		return s.QueryRow(ctx, "PRAGMA data_version").Scan(&v)
	})
	if err != nil {
		return 0
	}
	return v
}
