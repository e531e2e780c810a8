package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// bare is the baseline: a workflow of n no-op activities in parallel, on the
// same server, with a worker in this process.
type bare struct {
	client client.Client
	worker worker.Worker
}

const bareQueue = "bench-bare"

// Bare is the workflow.
func Bare(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}, DisableEagerExecution: true,
	})
	futures := make([]workflow.Future, n)
	for i := range futures {
		futures[i] = workflow.ExecuteActivity(ctx, "noop")
	}
	for _, f := range futures {
		if err := f.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func noop(context.Context) error { return nil }

func startBare(ctx context.Context, address string) (*bare, error) {
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Namespace: contract.Namespace, Logger: silent{}})
	if err != nil {
		return nil, fmt.Errorf("connect to temporal: %w", err)
	}
	w := worker.New(c, bareQueue, worker.Options{MaxConcurrentActivityExecutionSize: 1000})
	w.RegisterWorkflow(Bare)
	w.RegisterActivityWithOptions(noop, activity.RegisterOptions{Name: "noop"})
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("start the bare worker: %w", err)
	}
	return &bare{client: c, worker: w}, nil
}

func (b *bare) stop() {
	b.worker.Stop()
	b.client.Close()
}

// run runs one workflow of n activities and returns how long it took.
func (b *bare) run(ctx context.Context, n int) (time.Duration, error) {
	begin := time.Now()
	run, err := b.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: bareQueue}, Bare, n)
	if err != nil {
		return 0, fmt.Errorf("start a bare workflow: %w", err)
	}
	if err := run.Get(ctx, nil); err != nil {
		return 0, fmt.Errorf("await a bare workflow: %w", err)
	}
	return time.Since(begin), nil
}

// many runs work n times with some clients in parallel and returns how long all
// of it took.
func many(n, clients int, work func() error) (time.Duration, error) { //nolint:unparam // the number of clients belongs to what is measured
	begin := time.Now()
	var group sync.WaitGroup
	jobs := make(chan struct{})
	errs := make(chan error, clients)
	for range clients {
		group.Go(func() {
			for range jobs {
				if err := work(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	var err error
feed:
	for range n {
		select {
		case jobs <- struct{}{}:
		case err = <-errs:
			break feed
		}
	}
	close(jobs)
	group.Wait()
	select {
	case err = <-errs:
	default:
	}
	return time.Since(begin), err
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free address: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
