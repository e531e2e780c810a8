package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/run"
)

// hold keeps the environment of a failed task for the time that the order says, or
// until a release or a stop. A process that only waits takes the place of the
// failed step: sessions take their environment from it, and its end releases the
// task. The result of the task is decided before.
func (t *task) hold(r *run.TaskResult) {
	limit := t.order.Definition.HoldOnFailure
	if limit <= 0 || r.Status != run.StatusFailed || t.stopRequested() {
		return
	}
	for n, step := range r.Steps {
		if step.Status == run.StatusFailed {
			t.holdStep(n, limit)
			return
		}
	}
}

func (t *task) holdStep(n int, limit time.Duration) {
	p, err := t.startHolder(n)
	if err != nil {
		t.print(n, []string{"the environment cannot be held: " + err.Error()})
		return
	}
	t.print(n, []string{fmt.Sprintf("the task failed; its environment is held until %s: drover runs exec runs commands in it, drover runs release ends it",
		time.Now().Add(limit).UTC().Format(time.RFC3339))})
	timer := time.NewTimer(limit)
	defer timer.Stop()
	why := "released"
	select {
	case <-p.Done:
	case <-timer.C:
		why = "released after " + limit.String()
	case <-t.control.stopped:
		why = "released by a stop"
	}
	t.reaper.Kill(p)
	<-p.Done
	t.print(n, []string{why})
}

// startHolder starts the process that waits, with the environment of a step.
func (t *task) startHolder(n int) (*process.Process, error) {
	step := t.order.Definition.Steps[n]
	dir, err := t.env.WorkingDir(step)
	if err != nil {
		return nil, err
	}
	program := "/proc/self/exe" // the user of the step may not reach the path
	if runtime.GOOS != "linux" {
		if program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find drover-shim: %w", err)
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer func() { _ = null.Close() }()
	p, err := t.reaper.Start(process.Command{
		Path: program, Args: []string{"drover-shim", "hold"}, Dir: dir, User: t.env.User, Stdin: null, Stdout: null, Stderr: null,
		Env: stepenv.List(t.env.Variables(step, filepath.Join(t.env.Files, "held.out"))),
	})
	if err != nil {
		return nil, process.Plain(err)
	}
	if err := p.RecordStep(t.dir); err != nil {
		t.reaper.Kill(p)
		return nil, err
	}
	return p, nil
}

func (t *task) stopRequested() bool {
	select {
	case <-t.control.stopped:
		return true
	default:
		return false
	}
}
