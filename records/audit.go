package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run/auditlog"
)

// Audit holds the audit log.
type Audit interface {
	auditlog.Log
	// ForgetAudit removes up to n records of before a time, the oldest first, in one
	// transaction. Fewer than n means that no more are so old.
	ForgetAudit(ctx context.Context, before time.Time, n int) (int, error)
}
