package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Due lists what of each kind has expired: exactly what the removing method
// would remove with the same arguments, called until nothing is left. Up to n
// items are listed, the oldest first.
type Due interface {
	// DueRuns lists what DeleteRuns would delete.
	DueRuns(ctx context.Context, q run.DeleteQuery, n int) (run.RetentionDue, error)
	// DueEvents lists what RemoveEvents would remove.
	DueEvents(ctx context.Context, keep KeepEvents, n int) (run.RetentionDue, error)
	// DueLogs lists what ExpireLogs would remove.
	DueLogs(ctx context.Context, before time.Time, n int) (run.RetentionDue, error)
	// DueArchives lists what ExpireArchives would remove.
	DueArchives(ctx context.Context, kind run.ArchiveKind, keep run.ArchiveRetention, n int) (run.RetentionDue, error)
}
