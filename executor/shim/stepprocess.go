package shim

import (
	"errors"
	"fmt"
	"os"

	"github.com/drover-run/drover/executor/shim/helper"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/run"
)

// stepProcess is the first process of a step that runs, in this container or in a helper
// container.
type stepProcess interface {
	// Done is closed when the process has ended, or was lost.
	Done() <-chan struct{}
	// Terminate asks the process and its group to end, Kill kills them.
	Terminate()
	Kill()
	// end returns how the process ended, once Done is closed. The error means that
	// it was lost.
	end() (helper.Result, error)
}

// start starts a step for the attempt-th time, and reads its output. fault is the
// outcome of a step that could not be started.
func (t *task) start(n, attempt int) (p stepProcess, readers []*pipeReader, to *sink, fault *outcome) {
	step := t.order.Definition.Steps[n]
	refuse := func(err error) (stepProcess, []*pipeReader, *sink, *outcome) {
		var code *int
		if _, ok := errors.AsType[*programError](err); ok {
			code = new(exitNotStarted)
		}
		out := t.failed(n, code, "could not be started: "+err.Error())
		return nil, nil, nil, &out
	}
	pipes, err := openPipes(step.Streams)
	if err != nil {
		return refuse(err)
	}
	defer pipes.closeWriters()
	if step.Image == "" {
		p, err = t.startLocally(n, attempt, pipes)
	} else {
		p, err = t.startInHelper(n, attempt, pipes)
	}
	if err != nil {
		_ = pipes.closeSources()
		if _, lost := errors.AsType[*lostError](err); lost {
			out := t.lostOutcome(n, uninterrupted, err)
			return nil, nil, nil, &out
		}
		return refuse(err)
	}
	to = newSink(t.journal, n, step.Streams == run.StreamsSplit)
	for _, s := range pipes.sources {
		readers = append(readers, newPipeReader(s, t.secrets, to))
	}
	return p, readers, to, nil
}

// programError is the error of a program that cannot be executed.
type programError struct{ text string }

func (e *programError) Error() string { return e.text }

// startLocally starts a step in this container, or on this host.
func (t *task) startLocally(n, attempt int, pipes stepPipes) (stepProcess, error) {
	c, outputs, err := t.env.Prepare(t.order.Definition.Steps[n], n, attempt)
	if err != nil {
		return nil, err
	}
	if c.Stdin == nil {
		if c.Stdin, err = os.Open(os.DevNull); err != nil {
			return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
		}
	}
	defer func() { _ = c.Stdin.Close() }()
	c.Stdout, c.Stderr = pipes.stdout, pipes.stderr
	oomKills := process.OOMKills()
	p, err := t.reaper.Start(c)
	if err != nil {
		return nil, &programError{process.Plain(err).Error()}
	}
	_ = p.RecordStep(t.dir) // without it there are no sessions, which must not fail the step
	return &localProcess{task: t, process: p, outputs: outputs, oomKills: oomKills}, nil
}

// localProcess is a step in this container, or on this host.
type localProcess struct {
	task     *task
	process  *process.Process
	outputs  string // path of the file
	oomKills int    // count when it began
}

// Done implements stepProcess.
func (p *localProcess) Done() <-chan struct{} { return p.process.Done }

// Terminate implements stepProcess.
func (p *localProcess) Terminate() { p.task.reaper.Terminate(p.process) }

// Kill implements stepProcess.
func (p *localProcess) Kill() { p.task.reaper.Kill(p.process) }

func (p *localProcess) end() (helper.Result, error) {
	t := p.task
	end := helper.Result{Exit: p.process.Exit()}
	t.oomSeen = end.CountOOM(t.oomSeen, p.oomKills)
	var err error
	if end.Outputs, err = stepenv.ReadOutputs(p.outputs, run.MaxOutputBytes-t.outputBytes); err != nil {
		end.OutputError = err.Error()
	}
	return end, nil
}
