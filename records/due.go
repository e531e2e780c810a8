package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Due tells what of each kind is kept no longer: exactly what the method that
// removes it would remove by the same arguments, called until there is no more.
// Up to n are listed, the oldest first.
type Due interface {
	// DueRuns is about DeleteRuns.
	DueRuns(ctx context.Context, q run.DeleteQuery, n int) (run.RetentionDue, error)
	// DueEvents is about RemoveEvents.
	DueEvents(ctx context.Context, keep KeepEvents, n int) (run.RetentionDue, error)
	// DueLogs is about ExpireLogs.
	DueLogs(ctx context.Context, before time.Time, n int) (run.RetentionDue, error)
	// DueArchives is about ExpireArchives.
	DueArchives(ctx context.Context, kind run.ArchiveKind, keep run.ArchiveRetention, n int) (run.RetentionDue, error)
}
