package executortest

import (
	"context"
	"sync"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// Counts counts the calls for a key.
type Counts struct {
	Starts   int // calls of Start
	Launches int // calls of Task.Launch
	Begun    int // times its steps began; more than one is a double start
	Attaches int
	Stops    int
	Aborts   int
	Removes  int
}

// Scripted is a driver whose environments are in memory and follow their scripts.
// It represents a host: an executor that is created with the same Scripted after
// another one finds its environments. It is safe for concurrent use.
type Scripted struct {
	mu       sync.Mutex
	fallback Script
	scripts  map[run.Key]Script
	tasks    map[string]Script // by Definition.Task
	envs     map[run.Key]*scriptedEnv
	counts   map[run.Key]*Counts
	down     error
	changed  chan struct{} // closed and replaced at each change
}

var _ executor.Driver = (*Scripted)(nil)

// scriptedEnv is one environment, guarded by Scripted.mu.
type scriptedEnv struct {
	script Script
	begun  bool
	first  int64
	frames []run.Frame
	ended  bool  // task_end was written
	gone   error // it ended without a task_end
}

// NewScripted returns a driver whose tasks succeed at once unless they have another
// script.
func NewScripted() *Scripted {
	return &Scripted{
		fallback: Succeeds(), scripts: make(map[run.Key]Script), tasks: make(map[string]Script),
		envs: make(map[run.Key]*scriptedEnv), counts: make(map[run.Key]*Counts), changed: make(chan struct{}),
	}
}

// Script sets the script of a key.
func (s *Scripted) Script(key run.Key, script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[key] = script
}

// ScriptTask sets the script of the tasks with a name.
func (s *Scripted) ScriptTask(name string, script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[name] = script
}

// ScriptAll sets the script of all tasks that have no other.
func (s *Scripted) ScriptAll(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fallback = script
}

// SetDown makes every call fail with err; nil ends that. Environments keep running.
func (s *Scripted) SetDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
	s.notify()
}

// Emit writes further frames of a key that has begun.
func (s *Scripted) Emit(key run.Key, frames ...run.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.envs[key]; e != nil && e.begun {
		s.write(e, frames...)
	}
}

// End ends a task that has begun.
func (s *Scripted) End(key run.Key, result run.TaskResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.envs[key]; e != nil && e.begun {
		s.end(e, result)
	}
}

// Vanish ends an environment without a task_end; it can still be attached to.
func (s *Scripted) Vanish(key run.Key, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.envs[key]; e != nil && !e.ended {
		e.gone = run.Errorf(run.CodeNotFound, "%s", reason)
		s.notify()
	}
}

// RemoveEnvironment removes an environment, as an operator may do from outside.
func (s *Scripted) RemoveEnvironment(key run.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
}

// Counts returns the calls for a key.
func (s *Scripted) Counts(key run.Key) Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.count(key)
}

// Doubled returns the keys whose steps began more than once.
func (s *Scripted) Doubled() []run.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []run.Key
	for key, c := range s.counts {
		if c.Begun > 1 {
			out = append(out, key)
		}
	}
	return out
}

// Await waits until wanted accepts the counts of a key, or ctx ends.
func (s *Scripted) Await(ctx context.Context, key run.Key, wanted func(Counts) bool) error {
	for {
		s.mu.Lock()
		now, changed := *s.count(key), s.changed
		s.mu.Unlock()
		if wanted(now) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Start implements executor.Driver.
func (s *Scripted) Start(ctx context.Context, task executor.Task) (executor.Handle, error) {
	key := task.Definition.Key
	script, err := s.prepare(task)
	if err != nil {
		return nil, err
	}
	if task.Log != nil {
		for _, line := range script.Setup {
			task.Log(line)
		}
	}
	if ctx.Err() != nil {
		return nil, s.cancelStart(task, run.Errorf(run.CodeCanceled, "start canceled: %w", context.Cause(ctx)))
	}
	if s.begun(key) {
		return &scriptedHandle{s, key}, nil
	}
	first, err := task.Launch()
	if err != nil {
		return nil, s.cancelStart(task, run.Errorf(run.CodeOf(err), "record the launch: %w", err))
	}
	if err := s.begin(key, first, task.Resume); err != nil {
		return nil, err
	}
	return &scriptedHandle{s, key}, nil
}

// prepare creates the environment.
func (s *Scripted) prepare(task executor.Task) (Script, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := task.Definition.Key
	s.count(key).Starts++
	s.notify()
	script, ok := s.scripts[key]
	if !ok {
		script, ok = s.tasks[task.Definition.Task]
	}
	if !ok {
		script = s.fallback
	}
	switch e := s.envs[key]; {
	case s.down != nil:
		return script, s.down
	case e == nil && task.Resume:
		return script, run.Errorf(run.CodeNotFound, "there is no environment of task %s", key)
	case script.StartErr != nil && !task.Resume && (e == nil || !e.begun):
		delete(s.envs, key)
		return script, script.StartErr
	case e == nil:
		s.envs[key] = &scriptedEnv{script: script}
	}
	return script, nil
}

func (s *Scripted) cancelStart(task executor.Task, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.envs[task.Definition.Key]; e != nil && !e.begun && !task.Resume && !task.Keep {
		s.drop(task.Definition.Key)
	}
	return cause
}

func (s *Scripted) begun(key run.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.envs[key]
	return e != nil && e.begun
}

// begin runs the steps, unless they have begun.
func (s *Scripted) begin(key run.Key, first int64, resume bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(key).Launches++
	e := s.envs[key]
	switch {
	case e == nil:
		return run.Errorf(run.CodeNotFound, "the environment of task %s was removed meanwhile", key)
	case e.begun:
		return nil
	case e.script.LaunchedErr != nil && !resume:
		return e.script.LaunchedErr
	}
	s.count(key).Begun++
	e.begun, e.first = true, first
	s.write(e, e.script.Frames...)
	switch {
	case e.script.Vanished != nil:
		e.gone = e.script.Vanished
	case e.script.Result != nil:
		s.end(e, *e.script.Result)
	}
	s.notify()
	return nil
}

// Attach implements executor.Driver.
func (s *Scripted) Attach(_ context.Context, key run.Key) (executor.Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(key).Attaches++
	s.notify()
	if s.down != nil {
		return nil, s.down
	}
	if s.envs[key] == nil {
		return nil, run.Errorf(run.CodeNotFound, "there is no environment of task %s", key)
	}
	return &scriptedHandle{s, key}, nil
}

// List implements executor.Driver.
func (s *Scripted) List(context.Context) ([]run.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []run.Key
	for key := range s.envs {
		keys = append(keys, key)
	}
	return keys, s.down
}

// Features implements executor.Driver.
func (s *Scripted) Features() executor.Features { return executor.Features{Name: "scripted"} }

// Check implements executor.Driver.
func (s *Scripted) Check(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *Scripted) count(key run.Key) *Counts {
	if s.counts[key] == nil {
		s.counts[key] = &Counts{}
	}
	return s.counts[key]
}

func (s *Scripted) write(e *scriptedEnv, frames ...run.Frame) {
	for _, f := range frames {
		f.Version, f.N = f.Kind.Version(), e.first+int64(len(e.frames))
		if f.Time.IsZero() {
			f.Time = time.Now().UTC()
		}
		e.frames = append(e.frames, f)
	}
	s.notify()
}

func (s *Scripted) end(e *scriptedEnv, result run.TaskResult) {
	if e.ended || e.gone != nil {
		return
	}
	e.ended = true
	s.write(e, run.Frame{Kind: run.FrameTaskEnd, Step: run.SetupStep, Status: result.Status, ExitCode: result.ExitCode, Result: &result})
}

func (s *Scripted) drop(key run.Key) {
	if e := s.envs[key]; e != nil {
		e.gone = run.Errorf(run.CodeNotFound, "the environment was removed")
		delete(s.envs, key)
		s.notify()
	}
}

func (s *Scripted) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}
