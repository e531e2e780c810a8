package records

import (
	"time"

	"github.com/drover-run/drover/run"
)

// Observer is notified of what a store has committed: of each change once, by
// the store that wrote it. Repeated deliveries that changed nothing are not
// reported. The store calls it after the commit. Its methods must not block and
// may be called concurrently.
type Observer interface {
	// RunStarted reports how long a run was queued.
	RunStarted(waited time.Duration)
	// RunEnded reports that a run became final, and how long it ran: 0 if it
	// was cancelled.
	RunEnded(phase run.Phase, result run.Result, took time.Duration)
	// TaskClaimed reports how long a dispatch was queued: 0 if its claim
	// arrived before the workflow recorded the dispatch.
	TaskClaimed(pool string, waited time.Duration)
	// TaskEnded reports that a task became final, and how long its last attempt
	// ran, measured from the claim. started is false if there was no claim.
	TaskEnded(pool string, status run.Status, started bool, took time.Duration)
	// FramesStored reports a batch that was stored for the first time: how many
	// frames it has, whether output is among them, and the age of the oldest
	// output frame by the executor's clock.
	FramesStored(frames int, output bool, lag time.Duration)
}
