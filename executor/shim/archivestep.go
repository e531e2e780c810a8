package shim

import (
	"path/filepath"
	"time"

	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// archiveTransfer is the archive transfer of a step.
type archiveTransfer struct {
	request transfer.StepRequest
	pack    *archive.Selection // nil if the step restores
	unpack  string             // the directory to unpack to
}

// actionOf returns the action of a step type for messages.
func actionOf(kind string) string {
	switch kind {
	case run.StepSaveWorkspace:
		return "save the workspace"
	case run.StepRestoreWorkspace:
		return "restore the workspace"
	case run.StepSaveCache:
		return "save the cache"
	case run.StepRestoreCache:
		return "restore the cache"
	case run.StepSaveArtifacts:
		return "save the artifacts"
	}
	return kind
}

// runArchiveStep runs a step that moves an archive: it writes the request to the journal and
// waits for the executor's answer.
func (t *task) runArchiveStep(n int) outcome {
	step := t.order.Definition.Steps[n]
	clock := newStepClock(step.Timeout)
	defer clock.stop()
	interrupted, release := t.watch(n)
	defer release()
	clock.interrupted = interrupted
	e, by, err := t.prepareTransfer(n, clock)
	if by != uninterrupted {
		return t.interruptedOutcome(n, by)
	}
	could := "could not " + actionOf(step.ArchiveType())
	if err != nil {
		return t.failed(n, nil, could+": "+err.Error())
	}
	listener, err := newArchiveListener(t, e)
	if err != nil {
		return t.failed(n, nil, could+": "+err.Error())
	}
	defer listener.close()
	listener.serve(t.journal.AppendRequest(run.Frame{Time: time.Now().UTC(), Step: n}))
	var answer transfer.Answer
	select {
	case answer = <-listener.answers:
	case <-clock.expired:
		by = stepTimedOut
	case by = <-clock.interrupted:
	}
	listener.close()
	if by != uninterrupted {
		return t.interruptedOutcome(n, by)
	}
	t.print(n, answer.Lines)
	if answer.Fault != "" {
		return t.failed(n, nil, could+": "+answer.Fault)
	}
	return outcome{result: run.StepResult{Status: run.StatusSuccess}}
}

// prepareTransfer prepares the archive transfer of a step.
func (t *task) prepareTransfer(n int, clock *stepClock) (e archiveTransfer, by interruption, err error) {
	step := t.order.Definition.Steps[n]
	e.request.Type = step.ArchiveType()
	dir, err := t.env.WorkingDir(step)
	if err != nil {
		return e, by, err
	}
	target := func(to string) string {
		if filepath.IsAbs(to) {
			return filepath.Clean(to)
		}
		return filepath.Join(dir, to)
	}
	var templates []string
	switch {
	case step.SaveWorkspace != nil:
		e.pack = t.selection(step.SaveWorkspace.ArchivePaths, dir)
		e.pack.To = step.SaveWorkspace.To
	case step.RestoreWorkspace != nil:
		e.unpack = target(step.RestoreWorkspace.To)
	case step.SaveCache != nil:
		e.pack, templates = t.selection(step.SaveCache.ArchivePaths, dir), []string{step.SaveCache.Key}
	case step.RestoreCache != nil:
		e.unpack, templates = target(step.RestoreCache.To), step.RestoreCache.Keys
	case step.SaveArtifacts != nil:
		e.pack = t.selection(step.SaveArtifacts.ArchivePaths, dir)
		e.pack.SplitHardLinks = true // each file can be downloaded separately
	}
	if e.unpack != "" {
		if err := stepenv.MakeDir(e.unpack, t.env.User); err != nil {
			return e, by, err
		}
	}
	if len(templates) == 0 {
		return e, by, nil
	}
	e.request.Keys, by, err = t.evaluate(keysRequest{
		Templates: templates, Dir: dir, Time: t.started,
		Environment: t.env.Variables(step, ""), Secrets: t.order.Definition.Secrets,
	}, clock)
	return e, by, err
}

// selection returns the files of a directory to pack. It excludes the shim's own
// files in an environment of the task.
func (t *task) selection(p run.ArchivePaths, dir string) *archive.Selection {
	s := &archive.Selection{Root: p.In(filepath.ToSlash(dir)), Paths: p.Paths}
	if t.order.SecretsDir != "" {
		s.Exclude = []string{t.order.SecretsDir}
	}
	if rel, err := filepath.Rel(s.Root, t.dir); !t.host && err == nil && filepath.IsLocal(rel) {
		s.Paths = append(append([]string(nil), s.Paths...), "!"+filepath.ToSlash(rel))
	}
	return s
}

// evaluate evaluates the keys of a cache as the user of the steps.
func (t *task) evaluate(l keysRequest, clock *stepClock) (keys []string, by interruption, err error) {
	w := newFileHelper(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var d helperResponse
		d, err = w.do(helperRequest{Keys: &l}, nil, nil)
		keys = d.Keys
	}()
	select {
	case <-done:
		return keys, by, err
	case <-clock.expired:
		by = stepTimedOut
	case by = <-clock.interrupted:
	}
	w.abort()
	<-done
	return nil, by, nil
}

// interruptedOutcome is the outcome of a step that was interrupted.
func (t *task) interruptedOutcome(n int, by interruption) outcome {
	switch by {
	case wasStopped, wasAborted:
		return outcome{by: by, result: run.StepResult{Status: run.StatusStopped}}
	case stepTimedOut:
		out := t.failed(n, nil, "timed out after "+t.order.Definition.Steps[n].Timeout.String())
		out.by, out.cause, out.result.TimedOut = by, run.CauseTimeout, true
		return out
	case taskTimedOut, cleanupTimedOut, uninterrupted:
	}
	return outcome{by: by, result: run.StepResult{Status: run.StatusFailed, TimedOut: true}}
}

// print writes lines of the executor to the log of a step.
func (t *task) print(n int, lines []string) {
	for _, line := range lines {
		text := truncate.String(t.secrets.String(line), run.MaxFrameData-1, "") + "\n"
		t.journal.Add(run.Frame{
			Time: time.Now().UTC(), Kind: run.FrameOutput, Step: n, Stream: run.StreamSystem, Data: []byte(text),
		})
	}
}

// stepClock is the timeout of a step, and what else ends it.
type stepClock struct {
	timer   *time.Timer
	expired <-chan time.Time // nil: never
	// interrupted receives an event outside of the step: see task.watch.
	interrupted <-chan interruption
}

func newStepClock(limit time.Duration) *stepClock {
	if limit <= 0 {
		return &stepClock{}
	}
	timer := time.NewTimer(limit)
	return &stepClock{timer: timer, expired: timer.C}
}

func (c *stepClock) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
}
