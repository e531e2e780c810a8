package maintenance

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-run/drover/records"
)

const (
	// approvalInterval is the interval at which an ApprovalTimeouts looks for
	// approvals that timed out.
	approvalInterval = 2 * time.Second
	// approvalBatch bounds the tasks that one call rejects.
	approvalBatch = 100
)

// ApprovalTimeouts rejects tasks whose approval timed out. Any number of processes may
// run one: a task is rejected once.
//
// The timeouts are not timers of the run workflows, because the records decide on
// approvals: a rejection also counts while Temporal is unavailable, and no approval
// that arrives at the same moment can contradict it.
type ApprovalTimeouts struct {
	store  records.Approving
	logger *slog.Logger
}

// NewApprovalTimeouts returns an ApprovalTimeouts that does nothing until Run.
func NewApprovalTimeouts(store records.Approving, logger *slog.Logger) *ApprovalTimeouts {
	return &ApprovalTimeouts{store: store, logger: logger}
}

// Run looks for approvals that timed out at intervals, until ctx ends.
func (a *ApprovalTimeouts) Run(ctx context.Context) error {
	ticker := time.NewTicker(approvalInterval)
	defer ticker.Stop()
	for {
		n, err := a.store.ExpireApprovals(ctx, approvalBatch)
		if err != nil && ctx.Err() == nil {
			a.logger.WarnContext(ctx, "failed to reject tasks whose approval timed out", "error", err)
		}
		if n > 0 {
			a.logger.InfoContext(ctx, "tasks were rejected: their approval timed out", "tasks", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
