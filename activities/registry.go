package activities

import (
	"context"
	"time"

	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// Expirer removes temporary executors that are offline past their time.
type Expirer interface {
	ExpireExecutor(ctx context.Context, id string) (_ run.Executor, again time.Duration, _ error)
}

// Registry holds the activity of the executor workflow. It is idempotent and
// takes milliseconds. Errors are those of errcode.ToTemporal.
type Registry struct{ expirer Expirer }

// NewRegistry returns the activity over the records.
func NewRegistry(expirer Expirer) *Registry { return &Registry{expirer: expirer} }

// ExpireExecutor returns the state of an executor. It first removes a temporary
// executor that was offline past its time.
func (a *Registry) ExpireExecutor(ctx context.Context, in contract.ExpireInput) (contract.ExecutorState, error) {
	e, again, err := a.expirer.ExpireExecutor(ctx, in.Executor)
	if err != nil {
		return contract.ExecutorState{}, errcode.ToTemporal(err)
	}
	return contract.ExecutorState{
		Executor: e.ID, Pool: e.Pool, Set: e.Set, Temporary: e.Temporary, State: e.State, Reason: e.Reason, Version: e.Version,
		Tasks: e.Tasks, LastContact: e.LastContact.Truncate(time.Second), NextCheck: run.Duration(again),
	}, nil
}
