package records

import (
	"context"
	"time"
)

// Forgetting removes rows of executors and instances that ended long ago. Each
// call writes in one transaction.
type Forgetting interface {
	// ForgetExecutors removes the rows of up to n executors that were removed
	// before a time, so that their ids can be used again. It keeps the row of an
	// executor as long as something may ask whether it was removed:
	//   - a task that is not final names it, or it has a claim in a run that is not
	//     final: the run asks whether it can still end the task (LostExecutors), and
	//     would wait forever for an executor that is not known;
	//   - its set has a claim of before that time in such a run: the run may wait
	//     for this member, if it adopted the task;
	//   - its fleet has an instance with it: the number of its uses would begin
	//     again.
	ForgetExecutors(ctx context.Context, before time.Time, n int) (int, error)
	// ForgetInstances removes the rows of up to n instances of fleets that are
	// gone since before a time. Numbers of instances are not used again.
	ForgetInstances(ctx context.Context, before time.Time, n int) (int, error)
}
