package sqlite

import (
	"context"
	"time"
)

// pollInterval is how often a process checks for commits of others: SQLite does
// not notify it.
const pollInterval = 100 * time.Millisecond

// poll wakes all watchers after commits of other processes, until ctx ends. It
// polls only while there are watchers. It reads data_version on the writing
// connection, where the commits of this process do not change it. last is its
// value before the first watcher.
func (b *backend) poll(ctx context.Context, last int64) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if !b.hub.HasWatchers() {
			ticker.Stop()
			select {
			case <-ctx.Done():
				return
			case <-b.hub.WatcherAdded():
				ticker.Reset(pollInterval)
			}
		}
		// Commits from before the first watcher wake it too, once and
		// needlessly.
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

// dataVersion returns a number that changes with the commits of other
// processes, 0 if it cannot be read.
func (b *backend) dataVersion(ctx context.Context) int64 {
	var v int64
	err := withSession(ctx, b.writer, func(s *session) error {
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
