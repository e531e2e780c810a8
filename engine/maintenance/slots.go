package maintenance

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-run/drover/records"
)

const (
	// slotInterval is the interval at which a SlotSweeper looks for slots.
	slotInterval = 30 * time.Second
	// slotBatch bounds the tasks whose slots one call releases.
	slotBatch = 500
)

// SlotSweeper releases slots of change groups that tasks have left behind. Any number of
// processes may run one.
//
// Only processes of a version that does not know the slots of tasks leave any behind, while
// an upgrade or its rollback is in progress. The records do not count them, but nothing else would
// tell the tasks that wait.
type SlotSweeper struct {
	store  records.ChangeGroups
	logger *slog.Logger
}

// NewSlotSweeper returns a SlotSweeper that does nothing until Run.
func NewSlotSweeper(store records.ChangeGroups, logger *slog.Logger) *SlotSweeper {
	return &SlotSweeper{store: store, logger: logger}
}

// Run looks for slots that were left behind at intervals, until ctx ends.
func (s *SlotSweeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(slotInterval)
	defer ticker.Stop()
	for {
		n, err := s.store.SweepSlots(ctx, slotBatch)
		if err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "failed to release slots of tasks that have ended", "error", err)
		}
		if n > 0 {
			s.logger.WarnContext(ctx, "slots of tasks that have ended were released: a process of an earlier version has ended them", "tasks", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
