// Package executors has the workers of an executor. It imports nothing that only a
// server needs.
package executors

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/activities/execution"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/internal/retry"
)

const (
	// maxTaskPollers bounds the concurrent polls for tasks of a pool. Temporal
	// answers polls in the order of their arrival, so few polls per executor
	// spread the tasks: an executor with many polls would receive as many tasks
	// before the next executor gets one. A poll brings a task in about a
	// millisecond, which fills any number of slots fast enough.
	maxTaskPollers = 2
	// maxTaskControl bounds the concurrent adopt-task and stop-task activities;
	// they take milliseconds.
	maxTaskControl = 100
	// taskControlPollers is the number of polls for such activities.
	taskControlPollers = 2
	// stopTimeout is how long a stopping worker waits for deliveries that are
	// being claimed. It is above the time of a first heartbeat and a claim.
	stopTimeout = 15 * time.Second
	// Pauses between two attempts to start a worker while Temporal is
	// unavailable.
	startRetryFirst = 250 * time.Millisecond
	startRetryLimit = 10 * time.Second
)

// Executor runs an agent with its workers: one polls for tasks of the pool
// while slots are free, the others poll for adopt-task and stop-task, for this
// executor alone and for any member of its set.
type Executor struct {
	client client.Client
	agent  *agent.Agent
	log    *slog.Logger
}

// New returns the workers of an agent. The agent's tokens should use
// the same client.
func New(c client.Client, agent *agent.Agent, log *slog.Logger) *Executor {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Executor{client: c, agent: agent, log: log.With("executor", agent.ID())}
}

// Run runs the agent and its workers until ctx ends, or the executor is
// removed: see agent.Agent.Run. It does not need Temporal: while Temporal is
// unavailable the agent continues its tasks.
func (e *Executor) Run(ctx context.Context) error {
	// The agent stops after the task polls. Polls for adopt-task and stop-task
	// continue until the agent has stopped.
	agentCtx, endAgent := context.WithCancelCause(context.WithoutCancel(ctx))
	taskControlCtx, endTaskControl := context.WithCancelCause(context.WithoutCancel(ctx))
	tasksCtx, endTasks := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		var tasks sync.WaitGroup
		tasks.Go(func() {
			e.serve(tasksCtx, func(fatal func(error)) (worker.Worker, error) { return e.taskWorker("", fatal) })
		})
		tasks.Go(func() { e.serveLabels(tasksCtx) })
		tasks.Wait()
		endAgent(errStopping)
	})
	queues := []string{contract.ExecutorQueue(e.agent.ID())}
	if set := e.agent.Set(); set != "" {
		queues = append(queues, contract.SetQueue(set))
	}
	for _, queue := range queues {
		group.Go(func() {
			e.serve(taskControlCtx, func(fatal func(error)) (worker.Worker, error) { return e.taskControlWorker(queue, fatal) })
		})
	}
	err := e.agent.Run(agentCtx)
	endTasks(errStopping)
	endTaskControl(errStopping)
	group.Wait()
	return err
}

var errStopping = errors.New("the executor is stopping")

// taskWorker creates the worker of a queue of the pool: for tasks that require labels
// of their executor, or, if labels is "", for all other tasks.
func (e *Executor) taskWorker(labels string, fatal func(error)) (worker.Worker, error) {
	spare, err := worker.NewFixedSizeSlotSupplier(1)
	if err != nil {
		return nil, err
	}
	tuner, err := worker.NewCompositeTuner(worker.CompositeTunerOptions{
		ActivitySlotSupplier: &slotSupplier{slots: e.agent, labels: labels},
		// None of the others is used, but the SDK requires all of them.
		WorkflowSlotSupplier:        spare,
		LocalActivitySlotSupplier:   spare,
		NexusSlotSupplier:           spare,
		SessionActivitySlotSupplier: spare,
	})
	if err != nil {
		return nil, err
	}
	o := e.options(fatal)
	o.Tuner = tuner
	o.MaxConcurrentActivityTaskPollers = min(e.agent.Slots(), maxTaskPollers)
	queue := contract.PoolQueue(e.agent.Pool())
	if labels != "" {
		queue = contract.LabelsQueue(e.agent.Pool(), labels)
	}
	if e.agent.Labelled() { // a poll reserves a slot, which another queue may need
		o.MaxConcurrentActivityTaskPollers = 1
	}
	w := worker.New(e.client, queue, o)
	acts := execution.NewExecutor(e.agent)
	w.RegisterActivityWithOptions(acts.ExecuteTask, activity.RegisterOptions{Name: contract.ActivityExecuteTask})
	return w, nil
}

// taskControlWorker creates the worker of a queue for adopt-task and stop-task: the
// executor's own, or its set's.
func (e *Executor) taskControlWorker(queue string, fatal func(error)) (worker.Worker, error) {
	o := e.options(fatal)
	o.MaxConcurrentActivityExecutionSize = maxTaskControl
	o.MaxConcurrentActivityTaskPollers = taskControlPollers
	w := worker.New(e.client, queue, o)
	acts := execution.NewExecutor(e.agent)
	w.RegisterActivityWithOptions(acts.AdoptTask, activity.RegisterOptions{Name: contract.ActivityAdoptTask})
	w.RegisterActivityWithOptions(acts.StopTask, activity.RegisterOptions{Name: contract.ActivityStopTask})
	return w, nil
}

func (e *Executor) options(fatal func(error)) worker.Options {
	return worker.Options{
		Identity:                    "executor:" + e.agent.ID(),
		DisableWorkflowWorker:       true,
		DisableEagerActivities:      true,
		DisableRegistrationAliasing: true,
		WorkerStopTimeout:           stopTimeout,
		OnFatalError:                fatal,
	}
}

// serve keeps a worker running until ctx ends. If a worker cannot start, or
// stopped itself, serve creates a new one.
func (e *Executor) serve(ctx context.Context, newWorker func(fatal func(error)) (worker.Worker, error)) {
	pauses := retry.Doubling(startRetryFirst, startRetryLimit)
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		if ctx.Err() != nil {
			return struct{}{}, context.Cause(ctx)
		}
		fatal := make(chan error, 1)
		w, err := newWorker(func(err error) {
			select {
			case fatal <- err:
			default:
			}
		})
		if err == nil {
			err = w.Start()
		}
		if err != nil {
			return struct{}{}, err
		}
		pauses.Reset()
		select {
		case <-ctx.Done():
			w.Stop()
			return struct{}{}, nil
		case err := <-fatal: // the worker stopped itself
			return struct{}{}, err
		}
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, pause time.Duration) {
		e.log.WarnContext(ctx, "failed to run worker", "retry_in", pause, "error", err)
	}))
}
