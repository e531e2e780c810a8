package records

import (
	"time"

	"github.com/drover-run/drover/run"
)

// Observer is told what a store has committed: each change once, by the store
// that made it, and nothing of what was delivered again and changed nothing.
// It is told after the commit. Its methods must not block and may be called
// concurrently.
type Observer interface {
	// RunStarted tells how long a run was queued.
	RunStarted(waited time.Duration)
	// RunEnded tells of a run that is final, and how long it ran: not at all
	// where it was cancelled.
	RunEnded(phase run.Phase, result run.Result, took time.Duration)
	// TaskClaimed tells how long a dispatch was queued. A dispatch whose claim
	// came before the workflow's word of it was queued for no time.
	TaskClaimed(pool string, waited time.Duration)
	// TaskEnded tells of a task that is final, and how long its last attempt
	// ran, from the claim; started is false where there was none.
	TaskEnded(pool string, status run.Status, started bool, took time.Duration)
	// FramesStored tells of a batch that was not known: how many frames it
	// has, whether output is among them, and how old the oldest of that is, by
	// the executor's clock.
	FramesStored(frames int, output bool, lag time.Duration)
}
