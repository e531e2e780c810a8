// Package workflows holds Drover's deterministic code: the workflow of a run,
// that of a batch of its tasks, and those of change groups, executors, fleets,
// retention, schedules and webhooks.
//
// Package run decides a run's graph, a task set runs its tasks, and the pending
// writes collect the changes of both for the records, if possible one
// transaction for each workflow task. The workflow schedules nothing before the
// records have it, and reports no end before the records have it.
//
// Histories replay with the newest code: any change of the commands that a
// history leads to must use workflow.GetVersion.
package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// Run is the workflow of one run, from its admission to its end. It completes
// if the run succeeds, fails with ErrorRunFailed if the run fails, and closes as
// cancelled if the run was stopped or cancelled. It fails with other types of
// errors if the records have no such run, or refuse a write.
func Run(ctx workflow.Context, in contract.RunInput) (contract.RunOutput, error) {
	r := newRunner(ctx, in)
	if err := r.setQuery(ctx); err != nil {
		return contract.RunOutput{}, err
	}
	return r.run(ctx)
}

// Batch is the workflow of a batch of a run's tasks. It reports their ends to
// the run's workflow. It ends when it has no tasks and accepts no more, or when
// the run's workflow does not exist.
func Batch(ctx workflow.Context, in contract.BatchInput) error {
	b := newBatchRunner(ctx, in)
	if err := b.setQuery(ctx); err != nil {
		return err
	}
	return b.run(ctx)
}
