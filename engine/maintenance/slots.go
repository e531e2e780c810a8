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
	// slotsOverdue is how long a task may hold its slots before it is queued: its workflow takes
	// a second, unless Temporal or the control workers are away.
	slotsOverdue = time.Minute
	// slotBatch bounds the tasks of one call.
	slotBatch = 500
)

// SlotSweeper releases slots of change groups that tasks have left behind, and wakes tasks that
// wait for slots which they could have, or have. Any number of processes may run one.
//
// Only processes of a version that does not know the slots of tasks cause either, while an
// upgrade or its rollback is in progress. Such slots do not count, but nothing else would tell
// the tasks that wait.
type SlotSweeper struct {
	store  records.ChangeGroups
	logger *slog.Logger
}

// NewSlotSweeper returns a SlotSweeper that does nothing until Run.
func NewSlotSweeper(store records.ChangeGroups, logger *slog.Logger) *SlotSweeper {
	return &SlotSweeper{store: store, logger: logger}
}

// Run looks for such slots and tasks at intervals, until ctx ends.
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
		n, err = s.store.ResumeSlotWaits(ctx, slotsOverdue, slotBatch)
		if err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "failed to wake tasks that wait for slots", "error", err)
		}
		if n > 0 {
			s.logger.WarnContext(ctx, "tasks waited for slots that they have, or had no place in the queue: their workflows were notified again", "tasks", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
