package sqlite

import (
	"context"
	"log/slog"
)

// checkpointEvery is how many commits go into the write-ahead log between
// checkpoints: a few megabytes.
const checkpointEvery = 500

// checkpoint copies the write-ahead log into the database file on each signal,
// until ctx ends. It has its own connection, so that commits do not wait for
// the disk.
func (b *backend) checkpoint(ctx context.Context, logger *slog.Logger) {
	s := &session{db: b.db}
	defer s.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.checkpointDue:
		}
		err := s.connect(ctx)
		if err == nil {
			_, err = s.Exec(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
		}
		if err != nil && ctx.Err() == nil {
			// SQLite checkpoints by itself once the log is much larger.
			logger.WarnContext(ctx, "failed to copy the write-ahead log", "error", err)
			_ = s.close()
		}
	}
}
