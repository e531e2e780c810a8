package executors

import (
	"context"

	"go.temporal.io/sdk/worker"
)

// Reserver manages the slots of an executor: see agent.Agent.
type Reserver interface {
	// Reserve waits for a slot for a task that requires the labels; "" for none. It
	// fails only if ctx ends. release gives the slot back.
	Reserve(ctx context.Context, labels string) (release func(), err error)
}

// slotSupplier lets a worker poll only while its executor has a free slot and
// can run tasks. The executor itself counts the tasks that it holds, longer
// than the worker knows of them, so a permit covers only the poll and the
// hand-over.
type slotSupplier struct {
	slots  Reserver
	labels string // of the queue that the worker polls
}

var _ worker.SlotSupplier = (*slotSupplier)(nil)

// ReserveSlot implements worker.SlotSupplier.
func (s *slotSupplier) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	release, err := s.slots.Reserve(ctx, s.labels)
	if err != nil {
		return nil, err
	}
	return &worker.SlotPermit{UserData: release}, nil
}

// TryReserveSlot implements worker.SlotSupplier. It serves eager activities,
// which executors do not accept.
func (s *slotSupplier) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit { return nil }

// MarkSlotUsed implements worker.SlotSupplier.
func (s *slotSupplier) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot implements worker.SlotSupplier.
func (s *slotSupplier) ReleaseSlot(info worker.SlotReleaseInfo) {
	if release, ok := info.Permit().UserData.(func()); ok {
		release()
	}
}

// MaxSlots implements worker.SlotSupplier: the executor publishes its own
// limit.
func (s *slotSupplier) MaxSlots() int { return 0 }
