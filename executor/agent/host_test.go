package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// host is a machine: it has a state dir, and environments that keep running when
// the processes that started them end.
type host struct {
	w           *testEnv
	dir         string
	slots       int
	drainFinish bool

	mu   sync.Mutex
	envs map[run.Key]*env
	down bool // the driver's backend is unavailable
}

func (w *testEnv) newHost(slots int) *host {
	return &host{w: w, dir: w.t.TempDir(), slots: slots, envs: map[run.Key]*env{}}
}

// env is one environment with the shim's journal.
type env struct {
	key       run.Key
	first     int64
	delivered bool
	starter   int           // the last call of Start
	gone      chan struct{} // closed when it is removed
	stop      chan struct{}
	abort     chan struct{}

	mu      sync.Mutex
	frames  []run.Frame
	waiting *waitingStep // the step with a pending request
	ended   error        // it ended without a task_end
	damage  damage
	stopped bool
	aborted bool
	cleaned int // times that the cleanup began
	reads   int // times that the logs of services were read
	removed bool
	changed chan struct{}
}

// damage is the damage of an environment's journal.
type damage struct {
	from, to int64 // the lost frames; none if from is 0
	gap      bool  // the frames after them can be read, and the driver detects no damage
}

// damageJournal damages the journal of an environment from frame d.from on.
func (e *env) damageJournal(d damage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.damage = d
	e.notify()
}

// damageNext damages the frame after the next one.
func (e *env) damageNext(gap bool) {
	e.mu.Lock()
	next := e.first + int64(len(e.frames))
	e.mu.Unlock()
	e.damageJournal(damage{from: next + 1, to: next + 2, gap: gap})
}

// fault returns what a driver yields instead of frame n. The caller holds the lock.
func (e *env) fault(n int64) error {
	if e.damage.from == 0 || e.damage.gap || n < e.damage.from || n-e.first >= int64(len(e.frames)) {
		return nil
	}
	over := e.ended != nil || len(e.frames) > 0 && e.frames[len(e.frames)-1].Kind == run.FrameTaskEnd
	return executor.Damaged(errors.New("it has garbage"), over)
}

func (e *env) add(f run.Frame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.Version, f.N, f.Time = f.Kind.Version(), e.first+int64(len(e.frames)), time.Now()
	e.frames = append(e.frames, f)
	e.notify()
}

func (e *env) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// shim runs the steps.
func (e *env) shim(w *testEnv, s script) {
	select {
	case <-e.abort: // an order that arrives later begins no step
		return
	case <-e.gone:
		return
	default:
	}
	w.mu.Lock()
	w.began[attemptID{e.key.Task, e.key.Attempt}]++
	w.mu.Unlock()
	began := time.Now()
	e.add(run.Frame{Kind: run.FrameStepStart})
	status := run.StatusSuccess
	for i := 0; i < s.lines || s.hang; i++ {
		if s.lines > i {
			data := append(fmt.Appendf(nil, "line %d", i), make([]byte, max(0, s.bulk-20))...)
			e.add(run.Frame{Kind: run.FrameOutput, Stream: run.StreamStdout, Data: data})
		}
		if s.pause == 0 && !s.hang {
			continue
		}
		select {
		case <-time.After(max(s.pause, time.Millisecond)):
			if s.hang {
				s.pause = time.Hour
			}
			continue
		case <-e.stop:
			status = run.StatusStopped
			if !e.cleanUp(w, s.cleanup) {
				return
			}
		case <-e.gone:
			return
		case <-w.ctx.Done():
			return
		}
		break
	}
	if s.vanish != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ended = s.vanish
		e.notify()
		return
	}
	result := run.TaskResult{Status: status}
	if s.transfer != nil && status == run.StatusSuccess {
		switch a := e.sendRequest(w, s.transfer); {
		case a == nil:
			result.Status = run.StatusStopped
		case a.Fault != "":
			result.Status, result.Reason = run.StatusFailed, a.Fault
		default:
			result.Reason = strings.Join(a.Lines, "; ")
		}
		status = result.Status
	}
	step := run.StepResult{Status: status, Started: began, Ended: time.Now()}
	result.Steps, result.Ended = []run.StepResult{step}, step.Ended
	e.add(run.Frame{Kind: run.FrameStepEnd, Status: status})
	e.add(run.Frame{Kind: run.FrameTaskEnd, Result: &result})
}

// cleanUp takes some time after a stop. It returns false if the environment is gone.
func (e *env) cleanUp(w *testEnv, takes time.Duration) bool {
	e.mu.Lock()
	aborted := e.aborted
	if !aborted && takes > 0 {
		e.cleaned++
	}
	e.mu.Unlock()
	if aborted || takes == 0 {
		return true
	}
	select {
	case <-time.After(takes):
		return true
	case <-e.abort:
		return true
	case <-e.gone:
		return false
	case <-w.ctx.Done():
		return false
	}
}

// procDriver is the driver of one process.
type procDriver struct{ *process }

func (d *procDriver) Features() executor.Features { return executor.Features{Name: "fake"} }

func (d *procDriver) Check(context.Context) error {
	return do(d.process, func() error { return d.host.reach() })
}

func (h *host) reach() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return run.Errorf(run.CodeUnavailable, "the driver's backend is unavailable")
	}
	return nil
}

func (h *host) setDown(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

func (h *host) find(key run.Key) *env {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.envs[key]
}

func (h *host) keys() []run.Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.envs))
}

func (d *procDriver) List(context.Context) ([]run.Key, error) {
	return gatedCall(d.process, func() ([]run.Key, error) { return d.host.keys(), d.host.reach() })
}

func (d *procDriver) Attach(_ context.Context, key run.Key) (executor.Handle, error) {
	return gatedCall(d.process, func() (executor.Handle, error) {
		if err := d.host.reach(); err != nil {
			return nil, err
		}
		e := d.host.find(key)
		if e == nil {
			return nil, run.Errorf(run.CodeNotFound, "no environment")
		}
		return &procHandle{procDriver: d, env: e, notes: d.w.script(key).found, attached: true}, nil
	})
}

func (d *procDriver) Start(ctx context.Context, t executor.Task) (executor.Handle, error) {
	if err := d.gate(); err != nil {
		return nil, err
	}
	if err := d.host.reach(); err != nil {
		return nil, err
	}
	key := t.Definition.Key
	if t.Definition.Fault != "" {
		d.w.t.Errorf("%s is started without its secrets", key)
	}
	e := d.host.find(key)
	if t.Definition.ProviderSecrets && e != nil && !t.HideServices {
		d.w.t.Errorf("the services of %s may have other secrets", key)
	}
	s := d.w.script(key)
	if t.Resume && s.refused != nil {
		return nil, s.refused
	}
	for _, line := range s.setup {
		t.Log(line)
	}
	if s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-ctx.Done():
			return nil, run.Errorf(run.CodeCanceled, "%w", context.Cause(ctx))
		}
	}
	if s.failure != nil {
		return nil, s.failure
	}
	e, starter, err := d.create(key, t.Resume)
	if err != nil {
		return nil, err
	}
	first, err := t.Launch()
	if err != nil {
		if !t.Keep {
			d.host.removeUnstarted(e, starter)
		}
		return nil, err
	}
	if err := d.gate(); err != nil {
		return nil, err
	}
	if s.late != nil && !t.Resume {
		return nil, s.late
	}
	d.host.deliver(e, first, s)
	if err := d.gate(); err != nil {
		return nil, err
	}
	return &procHandle{procDriver: d, env: e, notes: s.notes}, nil
}

// create creates the environment unless it exists. The starter identifies this
// call.
func (d *procDriver) create(key run.Key, resume bool) (e *env, starter int, err error) {
	if err := d.gate(); err != nil {
		return nil, 0, err
	}
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	e = d.host.envs[key]
	if e == nil {
		if resume {
			return nil, 0, run.Errorf(run.CodeNotFound, "no environment")
		}
		e = newEnv(key)
		d.host.envs[key] = e
	}
	if !resume {
		e.starter++
	}
	return e, e.starter, nil
}

// removeUnstarted removes an environment of which nothing ran, and that no other call has
// begun to start.
func (h *host) removeUnstarted(e *env, starter int) {
	h.mu.Lock()
	mine := !e.delivered && e.starter == starter && h.envs[e.key] == e
	h.mu.Unlock()
	if mine {
		h.drop(e.key)
	}
}

// deliver hands the definition to the shim, which accepts it once.
func (h *host) deliver(e *env, first int64, s script) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.delivered {
		return
	}
	e.delivered, e.first = true, first
	h.w.group.Go(func() { e.shim(h.w, s) })
}

func (h *host) hasBegun(e *env) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return e.delivered
}

// put creates an environment that no executor started.
func (h *host) put(key run.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.envs[key] = newEnv(key)
}

func newEnv(key run.Key) *env {
	return &env{key: key, gone: make(chan struct{}), stop: make(chan struct{}), abort: make(chan struct{}), changed: make(chan struct{})}
}

func (h *host) drop(key run.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.envs[key]
	if e == nil {
		return
	}
	delete(h.envs, key)
	close(e.gone)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removed = true
	e.notify()
}

type procHandle struct {
	*procDriver
	env      *env
	notes    string
	attached bool // not by Start
}

func (h *procHandle) Events(ctx context.Context, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		for next := from; ; {
			if err := h.gate(); err != nil {
				yield(run.Frame{}, err)
				return
			}
			if err := h.host.reach(); err != nil {
				yield(run.Frame{}, err)
				return
			}
			f, ok, changed, ended := h.env.at(next)
			switch {
			case h.attached && !h.host.hasBegun(h.env):
				yield(run.Frame{}, run.Errorf(run.CodeNotFound, "the task has not begun"))
				return
			case ok:
				if f.Kind == run.FrameTaskEnd && h.notes != "" {
					f = executor.WithNotes(f, []string{h.notes})
				}
				if !yield(f, nil) || f.Kind == run.FrameTaskEnd {
					return
				}
				next = f.N + 1
				continue
			case ended != nil:
				yield(run.Frame{}, ended)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(run.Frame{}, run.Errorf(run.CodeCanceled, "%w", context.Cause(ctx)))
				return
			}
		}
	}
}

// at returns frame n if it exists, or the next one after a gap.
func (e *env) at(n int64) (f run.Frame, ok bool, changed <-chan struct{}, ended error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.damage.gap && n >= e.damage.from && n <= e.damage.to && e.damage.to-e.first < int64(len(e.frames)) {
		n = e.damage.to + 1
	}
	if err := e.fault(n); err != nil && !e.removed {
		return run.Frame{}, false, nil, err
	}
	if e.damage.gap && n >= e.damage.from && n <= e.damage.to {
		return run.Frame{}, false, e.changed, e.ended
	}
	if i := n - e.first; e.delivered && i >= 0 && i < int64(len(e.frames)) {
		return e.frames[i], true, nil, nil
	}
	if e.removed {
		return run.Frame{}, false, nil, run.Errorf(run.CodeNotFound, "the environment was removed")
	}
	return run.Frame{}, false, e.changed, e.ended
}

func (h *procHandle) ServiceLogs(_ context.Context, limit int) ([]executor.ServiceLog, error) {
	return gatedCall(h.process, func() ([]executor.ServiceLog, error) {
		output := h.w.script(h.env.key).service
		if err := h.host.reach(); err != nil || len(h.w.api.services) == 0 {
			return nil, err
		}
		h.env.mu.Lock()
		defer h.env.mu.Unlock()
		h.env.reads++
		return executor.ReadServiceLogs([]string{"db"}, func(_ int, log *executor.ServiceLog) error {
			for line := range strings.Lines(strings.Repeat(output, h.env.reads)) {
				log.Add(executor.LogPiece{Time: time.Now(), Data: []byte(line)}, limit)
			}
			if h.w.script(h.env.key).unread {
				return errors.New("the log breaks off")
			}
			return nil
		})
	})
}

func (h *procHandle) Stop(context.Context, time.Duration) error {
	return do(h.process, func() error {
		if err := h.host.reach(); err != nil {
			return err
		}
		h.env.mu.Lock()
		defer h.env.mu.Unlock()
		if !h.env.stopped {
			h.env.stopped = true
			close(h.env.stop)
		}
		return nil
	})
}

func (h *procHandle) Abort(context.Context, time.Duration) error {
	return do(h.process, func() error {
		if err := h.host.reach(); err != nil {
			return err
		}
		h.env.mu.Lock()
		defer h.env.mu.Unlock()
		if !h.env.aborted {
			h.env.aborted = true
			close(h.env.abort)
		}
		if !h.env.stopped {
			h.env.stopped = true
			close(h.env.stop)
		}
		return nil
	})
}

func (h *procHandle) Remove(context.Context) error {
	return do(h.process, func() error {
		if err := h.host.reach(); err != nil {
			return err
		}
		h.host.drop(h.env.key)
		return nil
	})
}

func (h *procHandle) CopyTo(context.Context, string, io.Reader) error { return nil }

func (h *procHandle) CopyFrom(context.Context, string) (io.ReadCloser, error) {
	return nil, run.Errorf(run.CodeNotSupported, "no files")
}
