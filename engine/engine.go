// Package engine is Drover's service: it validates and stores the requests of
// clients, notifies workflows of them, and answers the queries of clients and
// executors. It implements run.Service and run.ExecutorAPI over the records
// store, the blob store and a Temporal client.
//
// A call makes its decisions in one transaction of the records. Temporal learns
// of them through the outbox, which package outbox delivers. Package maintenance
// does the work that no call waits for.
package engine

import (
	"context"
	"log/slog"

	"github.com/drover-run/drover/engine/archives"
	"github.com/drover-run/drover/engine/sessions"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// LogStore stores the frames of tasks in batches, and reads packed logs.
type LogStore interface {
	// PutFrames stores a batch, or finds it stored, and returns its size in
	// bytes. Errors: conflict (another batch begins with its first frame),
	// unavailable.
	PutFrames(ctx context.Context, b run.FrameBatch) (int64, error)
	// GetFrames returns a stored batch. Errors: not_found, unavailable.
	GetFrames(ctx context.Context, key run.Key, first int64) ([]run.Frame, error)
	// DeleteFrames removes a stored batch. A missing batch is no error. Errors:
	// unavailable.
	DeleteFrames(ctx context.Context, key run.Key, first int64) error
	// PackedBlocks returns the blocks of a packed log of a known size, and
	// PackedFrames the frames of one block. Errors: not_found, unavailable.
	PackedBlocks(ctx context.Context, key run.Key, last, size int64) ([]run.LogBlock, error)
	PackedFrames(ctx context.Context, key run.Key, last int64, b run.LogBlock) ([]run.Frame, error)
	// Check returns nil if the store answers.
	Check(ctx context.Context) error
}

// Store is the part of the records that an Engine uses.
type Store interface {
	records.Runs
	records.ChangeGroups
	records.Executors
	records.Registry
	records.Events
	records.Archives
	records.Sessions
	EventFloor(ctx context.Context, id run.ID) (int64, error)
	ListFleets(ctx context.Context) ([]run.Fleet, error)
	FleetInstances(ctx context.Context, name string, gone bool) ([]run.FleetInstance, error)
	// Check returns nil if the database answers and its schema is current.
	Check(ctx context.Context) error
}

// Deps are the dependencies of an Engine. Store, Logs and Logger are required.
type Deps struct {
	Store   Store
	Logs    LogStore
	Logger  *slog.Logger
	Metrics *Metrics // nil: an unregistered set
	// Secrets resolves references to secrets. It may be nil in processes that
	// hand out no tasks; then references are accepted unchecked.
	Secrets Secrets
	// Archives stores archives; nil: there are none. Archiving limits them.
	Archives  archives.Store
	Archiving archives.Options
	// Sessions are the bounds of commands in running tasks.
	Sessions sessions.Options
	// LogLimit is how many bytes of output are kept for a task; 0 for all.
	LogLimit int64
	// Temporal returns nil if Temporal answers. It may be nil; then reasons do
	// not mention Temporal.
	Temporal func(ctx context.Context) error
}

// Engine implements run.Service and run.ExecutorAPI. It is safe for concurrent
// use. Any number of processes may run one on the same stores.
type Engine struct {
	*archives.Service  // run.Artifacts, and the part of run.ExecutorAPI for archives
	*sessions.Sessions // commands in running tasks
	approvals

	store   Store
	logs    LogStore
	logger  *slog.Logger
	metrics *Metrics
	secrets Secrets
	limit   int64 // of a log
	outage  *outage
}

var (
	_ run.Service        = (*Engine)(nil)
	_ run.ExecutorAPI    = (*Engine)(nil)
	_ run.ArchiveLocator = (*Engine)(nil)
)

// New returns an Engine. It does no I/O.
func New(deps Deps) *Engine {
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics()
	}
	e := &Engine{
		store: deps.Store, logs: deps.Logs, logger: deps.Logger, metrics: deps.Metrics, secrets: deps.Secrets, limit: deps.LogLimit,
		outage: newOutage(deps.Temporal, deps.Logger),
	}
	e.approvals = approvals{engine: e}
	e.Sessions = sessions.New(deps.Store, deps.Logger, deps.Sessions)
	e.Service = archives.New(archives.Deps{
		Store: deps.Store, Objects: deps.Archives, Options: deps.Archiving, Logger: deps.Logger, Metrics: deps.Metrics.archives,
		Resolve: e.resolveSecrets,
	})
	return e
}

// Ready implements run.Service.
func (e *Engine) Ready(ctx context.Context) error {
	if err := e.store.Check(ctx); err != nil {
		return err
	}
	return e.logs.Check(ctx)
}

// List implements run.Service.
func (e *Engine) List(ctx context.Context, q run.ListQuery) (run.Page, error) {
	return e.store.ListRuns(ctx, q)
}

// Start implements run.Service.
func (e *Engine) Start(ctx context.Context, id run.ID, token run.Token) (run.Run, error) {
	return e.change(ctx, id, token, run.Action{Kind: run.ActionStart, Actor: run.ActorOf(ctx)}, e.store.StartRun)
}

// Cancel implements run.Service.
func (e *Engine) Cancel(ctx context.Context, id run.ID, token run.Token) (run.Run, error) {
	return e.change(ctx, id, token, run.Action{Kind: run.ActionCancel, Actor: run.ActorOf(ctx)}, e.store.CancelRun)
}

// Stop implements run.Service.
func (e *Engine) Stop(ctx context.Context, id run.ID, opts run.StopOptions, token run.Token) (run.Run, error) {
	done := run.ActionStop
	var err error
	switch {
	case opts.CancelQueued:
		done, err = e.store.EndRun(ctx, id, token, opts.Force)
	case opts.Force:
		err = e.store.ForceStopRun(ctx, id, token)
	default:
		err = e.store.StopRun(ctx, id, token)
	}
	if err != nil {
		return run.Run{}, err
	}
	e.logAction(ctx, id, run.Action{Kind: done, Actor: run.ActorOf(ctx)})
	return e.Get(ctx, id)
}

// Spec implements run.Service.
func (e *Engine) Spec(ctx context.Context, id run.ID) (*run.Spec, error) {
	return e.store.RunSpec(ctx, id)
}

// Annotate implements run.Service.
func (e *Engine) Annotate(ctx context.Context, id run.ID, task string, annotations map[string]string, token run.Token) (run.Run, error) {
	if faults := spec.ValidateAnnotations(annotations); len(faults) > 0 {
		return run.Run{}, run.InvalidError("the annotations are not valid", faults)
	}
	return e.change(ctx, id, token, run.Action{}, func(ctx context.Context, id run.ID, token run.Token) error {
		return e.store.Annotate(ctx, id, task, annotations, token)
	})
}

// change makes a change of a run, and logs the action if it has a kind.
func (e *Engine) change(
	ctx context.Context, id run.ID, token run.Token, action run.Action, change func(context.Context, run.ID, run.Token) error,
) (run.Run, error) {
	if err := change(ctx, id, token); err != nil {
		return run.Run{}, err
	}
	e.logAction(ctx, id, action)
	return e.Get(ctx, id)
}

// logAction logs who changed a run.
func (e *Engine) logAction(ctx context.Context, id run.ID, a run.Action) {
	if a.Kind == "" {
		return
	}
	args := []any{"run_id", id, "action", a.Kind, "actor", a.Actor}
	if a.Task != "" {
		args = append(args, "task", a.Task)
	}
	if a.Reason != "" {
		args = append(args, "reason", a.Reason)
	}
	e.logger.InfoContext(ctx, "run changed by a client", args...)
}
