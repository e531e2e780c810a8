package workers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/executor"
)

const (
	// maxTaskPollers bounds the polls that wait at a time for tasks of a pool.
	// Temporal answers polls in the order in which they came, so few of them are
	// what spreads tasks over the executors: one with many would be handed as
	// many before the next has its turn. A poll brings a task in about a
	// millisecond, so any number of slots is filled fast enough.
	maxTaskPollers = 2
	// ordersAtOnce bounds how many orders to adopt or stop are dealt with at a
	// time; they take milliseconds.
	ordersAtOnce = 100
	// orderPollers is how many polls wait for such orders.
	orderPollers = 2
	// stopTimeout is how long a stopping worker waits for deliveries that are
	// being claimed. It is above what a first heartbeat and a claim may take.
	stopTimeout = 15 * time.Second
	// Pauses between two tries to start a worker while Temporal is away.
	startRetryFirst = 250 * time.Millisecond
	startRetryLimit = 10 * time.Second
)

// Executor runs an agent with the workers that feed it: one takes tasks of
// its pool while it has slots, the others take orders, for it alone and for any
// member of its set.
type Executor struct {
	client client.Client
	agent  *executor.Agent
	log    *slog.Logger
}

// NewExecutor returns the workers of an agent. The client is also what the
// agent's tokens should use.
func NewExecutor(c client.Client, agent *executor.Agent, log *slog.Logger) *Executor {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Executor{client: c, agent: agent, log: log.With(slog.String("executor", agent.ID()))}
}

// Run runs the agent and its workers until ctx ends, or the executor was
// removed: see executor.Agent.Run. It needs Temporal at no moment: while it is
// out of reach the agent goes on with what it has.
func (e *Executor) Run(ctx context.Context) error {
	// The agent ends after the polls, and orders for it are taken until it has.
	agentCtx, endAgent := context.WithCancelCause(context.WithoutCancel(ctx))
	ordersCtx, endOrders := context.WithCancelCause(context.WithoutCancel(ctx))
	tasksCtx, endTasks := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		e.serve(tasksCtx, e.taskWorker)
		endAgent(errStopping)
	})
	queues := []string{contract.ExecutorQueue(e.agent.ID())}
	if set := e.agent.Set(); set != "" {
		queues = append(queues, contract.SetQueue(set))
	}
	for _, queue := range queues {
		group.Go(func() {
			e.serve(ordersCtx, func(fatal func(error)) (worker.Worker, error) { return e.orderWorker(queue, fatal) })
		})
	}
	err := e.agent.Run(agentCtx)
	endTasks(errStopping)
	endOrders(errStopping)
	group.Wait()
	return err
}

var errStopping = errors.New("the executor is stopping")

// taskWorker makes the worker of the pool's queue.
func (e *Executor) taskWorker(fatal func(error)) (worker.Worker, error) {
	spare, err := worker.NewFixedSizeSlotSupplier(1)
	if err != nil {
		return nil, err
	}
	tuner, err := worker.NewCompositeTuner(worker.CompositeTunerOptions{
		ActivitySlotSupplier: &slotSupplier{slots: e.agent},
		// None of the others is used, but all must be there.
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
	w := worker.New(e.client, contract.PoolQueue(e.agent.Pool()), o)
	acts := activities.NewExecutor(e.agent)
	w.RegisterActivityWithOptions(acts.ExecuteTask, activity.RegisterOptions{Name: contract.ActivityExecuteTask})
	return w, nil
}

// orderWorker makes the worker of a queue of orders: the executor's own, or its
// set's.
func (e *Executor) orderWorker(queue string, fatal func(error)) (worker.Worker, error) {
	o := e.options(fatal)
	o.MaxConcurrentActivityExecutionSize = ordersAtOnce
	o.MaxConcurrentActivityTaskPollers = orderPollers
	w := worker.New(e.client, queue, o)
	acts := activities.NewExecutor(e.agent)
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

// serve keeps a worker running until ctx ends: one that can not start, or gave
// up, is made anew.
func (e *Executor) serve(ctx context.Context, newWorker func(fatal func(error)) (worker.Worker, error)) {
	pause := startRetryFirst
	for ctx.Err() == nil {
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
		if err == nil {
			pause = startRetryFirst
			select {
			case <-ctx.Done():
				w.Stop()
				return
			case err = <-fatal: // the worker stops by itself
			}
		}
		e.log.Warn("worker is not running", slog.Any("error", err))
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, startRetryLimit)
	}
}
