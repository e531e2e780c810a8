package shim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/executor/shim/helper"
	"github.com/drover-run/drover/run"
)

// helperTimeout is how long the helper containers, which have been started, may take to
// answer.
const helperTimeout = 30 * time.Second

// errInterrupted ends the wait for the helper containers of a task that was stopped.
var errInterrupted = errors.New("the task was interrupted")

// connectHelpers connects to all helper containers of the task, before any of its
// processes could interfere. If the task is stopped meanwhile, that is no error.
func (t *task) connectHelpers(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, helperTimeout, fmt.Errorf("nothing came within %s", helperTimeout))
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	go func() {
		select {
		case <-t.control.stopped:
			interrupt(errInterrupted)
		case <-t.deadline:
			interrupt(errInterrupted)
		case <-ctx.Done():
		}
	}()
	t.helpers = make(map[string]*helper.Client)
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for i, h := range t.order.Helpers {
		all.Go(func() {
			client, err := helper.Connect(ctx, t.dir, helper.Name(i), t.helperOrder(h))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("the helper container of image %s cannot be used: %w", h.Image, err))
				return
			}
			t.helpers[h.Image] = client
		})
	}
	all.Wait()
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return nil
	}
	return errors.Join(errs...)
}

// helperOrder returns the description of the environment in a helper container.
func (t *task) helperOrder(h run.HelperSpec) run.ShimSpec {
	order := t.order
	// Whether there is a checkout, and the images, decide about the environment. The
	// rest of a step arrives when it runs.
	order.Helpers, order.Definition.Steps = nil, slices.Clone(order.Definition.Steps)
	for i := range order.Definition.Steps {
		s := &order.Definition.Steps[i]
		*s = run.StepDef{Image: s.Image, Checkout: s.Checkout}
	}
	order.User, order.WorkingDir, order.BaseEnvironment = h.User, h.WorkingDir, h.BaseEnvironment
	return order
}

// closeHelpers begins to end the processes in the helper containers, and returns a
// function that waits for that.
func (t *task) closeHelpers() (wait func()) {
	var all sync.WaitGroup
	for _, client := range t.helpers {
		all.Go(func() { client.Close(leftoverGrace) })
	}
	return all.Wait
}

// lostError is the error of a step whose helper container is gone.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }

// startInHelper starts a step in the helper container of its image.
func (t *task) startInHelper(n, attempt int, pipes stepPipes) (stepProcess, error) {
	step := t.order.Definition.Steps[n]
	client := t.helpers[step.Image]
	if client == nil {
		return nil, fmt.Errorf("there is no helper container of image %s", step.Image)
	}
	t.journal.Sync() // the start of the step, before the step leaves this process
	p, err := client.Run(helper.Step{Number: n, Attempt: attempt, Step: step, OutputBudget: run.MaxOutputBytes - t.outputBytes}, pipes.stdout, pipes.stderr)
	if err != nil {
		return nil, &lostError{err}
	}
	select {
	case <-p.Done():
	default:
		return helperProcess{p}, nil
	}
	end, err := p.Result()
	switch {
	case err != nil:
		return nil, &lostError{err}
	case end.NoProgram:
		return nil, &programError{end.NotStarted}
	case end.NotStarted != "":
		return nil, errors.New(end.NotStarted)
	}
	return helperProcess{p}, nil // it has ended already
}

// helperProcess is a step in a helper container.
type helperProcess struct{ *helper.Process }

func (p helperProcess) end() (helper.Result, error) { return p.Result() }

// lostOutcome is the outcome of a step whose helper container is gone. Its processes are
// dead, but nothing is known about what they have done, so the step is not repeated.
func (t *task) lostOutcome(n int, by interruption, lost error) outcome {
	if by != uninterrupted {
		return t.interruptedOutcome(n, by)
	}
	out := t.failed(n, nil, "was lost: "+lost.Error()+" (image "+t.order.Definition.Steps[n].Image+")")
	out.cause, out.final = run.CauseVanished, true
	return out
}
