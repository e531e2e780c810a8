package workflows

import (
	"time"

	"github.com/drover-run/drover/contract"
)

// The default limits. Histories that began without limits of their own replay
// by these, so a change of one needs workflow.GetVersion.
const (
	// inlineTasks is how many tasks a run may have to need no batches: about
	// 1,500 events, and no more pending activities than a tenth of the
	// server's limit.
	inlineTasks = 250
	batchTasks  = 250
	// openBatches is well below the 2,000 children that a server allows.
	openBatches = 500
	// historyEvents is where an execution seeks its end: the server warns at
	// 10,240, and what is under way then still needs room.
	historyEvents = 4_000
)

// The measures of time.
const (
	// reportEvery throttles a batch: the first end is reported at once,
	// further ones together this much later.
	reportEvery = 150 * time.Millisecond
	// reportAtOnce is how many ends are reported without waiting.
	reportAtOnce = 50
	// lingerTime is how long a batch without tasks waits for more, longer than
	// its parent needs to decide what follows.
	lingerTime = 2 * time.Second
	// firstPause and longestPause bound the backoff of tasks given back.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// longestPursuit bounds the backoff of repeating a stop: a task that does
	// not end for days must not fill the history.
	longestPursuit = time.Hour
	// tellAgain is well above the grace of a stop.
	tellAgain = 30 * time.Second
	// pingEvery is how often batches are looked after of which this execution
	// would not learn that somebody terminated them.
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
