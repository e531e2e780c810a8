// Package workflows holds Drover's deterministic code: the workflow of a run
// and that of a batch of its tasks.
//
// A run's graph is decided in one place (package run), its tasks are run by a
// crew, and what both decide is written to the records through a ledger, one
// transaction for each workflow task where that can be. Nothing is scheduled
// before the records say so, and nothing is told as ended before they do.
//
// Histories replay with the newest code: any change of the commands that a
// history leads to stands behind workflow.GetVersion.
package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// Run is the workflow of one run, from its admission to its end. It completes
// whatever becomes of the run; it fails only where the records say that there
// is no such run, or refuse what it writes.
func Run(ctx workflow.Context, in contract.RunInput) (contract.RunOutput, error) {
	r := newRunner(ctx, in)
	if err := r.setQuery(ctx); err != nil {
		return contract.RunOutput{}, err
	}
	return r.run(ctx)
}

// Batch is the workflow of a batch of a run's tasks. It reports their ends to
// the run's workflow, and ends when it has none and is given no more, or when
// there is no one to report to.
func Batch(ctx workflow.Context, in contract.BatchInput) error {
	b := newBatchRunner(ctx, in)
	if err := b.setQuery(ctx); err != nil {
		return err
	}
	return b.run(ctx)
}
