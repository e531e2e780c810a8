package workflows

import (
	"time"

	"github.com/drover-run/drover/contract"
)

// The default limits. Histories that began without limits of their own replay
// with these, so a change of a default needs workflow.GetVersion.
const (
	// inlineTasks is the largest number of tasks that a run executes without
	// batches: about 1,500 events, and no more pending activities than a tenth
	// of the server's limit.
	inlineTasks = 250
	batchTasks  = 250
	// openBatches is well below the 2,000 children that a server allows.
	openBatches = 500
	// historyEvents is the history length from which an execution starts
	// nothing new. The server warns at 10,240, and operations in flight still
	// need room.
	historyEvents = 4_000
)

// The default intervals.
const (
	// reportEvery throttles a batch: it reports the first end immediately, and
	// further ends together after this interval.
	reportEvery = 150 * time.Millisecond
	// reportAtOnce is the number of ends that are reported without waiting.
	reportAtOnce = 50
	// lingerTime is how long a batch without tasks waits for more. It is longer
	// than its parent needs to decide which tasks follow.
	lingerTime = 2 * time.Second
	// firstBackoff and maxBackoff bound the backoff of requeued tasks.
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// maxStopBackoff bounds the backoff of repeated stops: a task that does not
	// end for days must not fill the history.
	maxStopBackoff = time.Hour
	// stopResendInterval is well above the grace period of a stop.
	stopResendInterval = 30 * time.Second
	// pingEvery is how often a run pings the batches whose termination it would
	// not notice.
	pingEvery = 10 * time.Minute
)

// limits returns the limits with defaults for what is not set.
func limits(given *contract.Limits) contract.Limits {
	l := contract.Limits{Inline: inlineTasks, Batch: batchTasks, Open: openBatches, Events: historyEvents}
	if given == nil {
		return l
	}
	for _, f := range []struct{ to, from *int }{
		{&l.Inline, &given.Inline}, {&l.Batch, &given.Batch}, {&l.Open, &given.Open}, {&l.Events, &given.Events},
	} {
		if *f.from > 0 {
			*f.to = *f.from
		}
	}
	return l
}
