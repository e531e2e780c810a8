// Package agent runs tasks on one host or for one cluster, with a driver and a
// journal of package executor. It holds the life cycle of a task, from the
// delivery to the removal of its environment. It does not depend on Temporal;
// package activities connects the two.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/registration"
	"github.com/drover-run/drover/executor/agent/sessions"
	"github.com/drover-run/drover/executor/agent/statedir"
	"github.com/drover-run/drover/run"
)

// Deps holds the dependencies of an agent. All but Journal and Logger are required.
type Deps struct {
	Driver executor.Driver
	API    run.ExecutorAPI
	Tokens Tokens
	// Journal stores the executor's keys; nil means files in the state dir. A Shared
	// journal makes the executor a member of its executor set.
	Journal executor.Journal
	Logger  *slog.Logger // nil: nothing is logged
}

// Options configure an agent.
type Options struct {
	// ID is the executor's id. "" means the id in the state dir; if there is none,
	// New generates one from the host name. A state dir belongs to one id
	// permanently. If Deps.Journal is set, ID is required and there is no state dir.
	ID   string
	Pool string // required
	// Slots is how many tasks run at a time; 0 means 1. Adopted tasks count, and may
	// exceed it.
	Slots int
	// StateDir holds the id and the journal; required unless a Journal is given. One
	// process holds it at a time.
	StateDir string
	Labels   map[string]string
	// Resources are those that the executor offers to its tasks: each takes what it asks
	// for, or else the share of a slot.
	Resources run.Resources
	Version   string
	// Temporary means that the executor is removed automatically after it was out of
	// contact for RemoveAfter; 0 means run.TemporaryOffline.
	Temporary   bool
	RemoveAfter time.Duration
	// OS and Arch describe the platform that tasks run on; "" means this host's.
	OS, Arch string
	// DrainFinish makes Run wait for the running tasks when its context ends.
	// Otherwise Run leaves them to their shims and to the next process.
	DrainFinish bool
	// OnFailpoint, if set, is called at named failpoints of each task's life cycle,
	// between two side effects. Tests kill and freeze the process there. Failpoints lists
	// the names. The task waits until the call returns.
	OnFailpoint func(point string, key run.Key)

	timing timing
}

// timing holds the intervals and timeouts of the protocol; tests shorten some of
// them.
type timing struct {
	heartbeat     time.Duration // between two heartbeats of a task
	retryFirst    time.Duration // first pause before a retry
	retryLimit    time.Duration // longest such pause
	call          time.Duration // timeout of one call
	claim         time.Duration // how long a claim is retried before the task is requeued
	stale         time.Duration // after so long without a heartbeat, a launch confirms the claim again
	framesTimeout time.Duration // how long a completion waits until the frames are stored
	sweep         time.Duration // between two sweeps
	check         time.Duration // between two checks of the driver
	tombstone     time.Duration // how long a closed key is kept
	shutdown      time.Duration // timeout of the final calls of a process
	prepare       time.Duration // timeout of finding an archive, or of preparing an upload
	stall         time.Duration // how long the executor API may take for one part of an archive
}

func defaultTiming() timing {
	return timing{
		heartbeat:     5 * time.Second,
		retryFirst:    200 * time.Millisecond,
		retryLimit:    5 * time.Second,
		call:          10 * time.Second,
		claim:         10 * time.Second,
		stale:         15 * time.Second, // half of the heartbeat timeout
		framesTimeout: 10 * time.Second,
		sweep:         30 * time.Second,
		check:         30 * time.Second,
		tombstone:     time.Hour,
		shutdown:      5 * time.Second,
		prepare:       30 * time.Second,
		stall:         time.Minute,
	}
}

// Agent is one executor: it owns the journal of a state dir and the life cycle of
// the tasks in it. Its methods are safe for concurrent use.
type Agent struct {
	driver       executor.Driver
	api          run.ExecutorAPI
	tokens       Tokens
	log          *slog.Logger
	opts         Options
	identity     *statedir.Identity
	journal      *journal
	shared       executor.Shared // the journal, if the executor is a member of a set; else nil
	slots        *registration.Slots
	registration *registration.Registration
	metrics      *metrics
	machine      machine
	sessions     *sessions.Sessions // nil if the executor API has none

	restored []*task // tasks of the journal, until Run starts them

	spawn  chan *task    // tasks to run, received by Run
	ended  chan struct{} // closed when Run receives no more tasks
	sweep  chan struct{} // of capacity 1: wakes the sweep
	retire chan struct{} // of capacity 1: wakes the loop for retired keys

	closeOnce sync.Once

	calls       sync.WaitGroup // of Execute and Adopt; counted up under mu
	mu          sync.Mutex
	callsClosed bool // no call is accepted any more
	tasks       map[run.Key]*task
}

// New opens the state dir. Run releases it; if Run is never called, Close
// does. Errors: CodeInvalid for missing options, CodeConflict if another process
// holds the state dir or it belongs to another id.
func New(d Deps, o Options) (*Agent, error) {
	if o.Pool == "" || o.StateDir == "" && d.Journal == nil || d.Driver == nil || d.API == nil || d.Tokens == nil {
		return nil, run.Errorf(run.CodeInvalid, "an executor needs a pool, a state dir or a journal, a driver, an executor API and tokens")
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	o.Slots = max(o.Slots, 1)
	if o.OS == "" {
		o.OS = runtime.GOOS
	}
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	if o.timing == (timing{}) {
		o.timing = defaultTiming()
	}
	who, err := identify(d.Journal, o)
	if err != nil {
		return nil, fmt.Errorf("open the executor's state: %w", err)
	}
	if d.Journal == nil {
		d.Journal = who.Journal()
	}
	shared, _ := d.Journal.(executor.Shared)
	a := &Agent{
		driver:   d.Driver,
		api:      d.API,
		tokens:   d.Tokens,
		log:      d.Logger.With("executor", who.ID),
		opts:     o,
		identity: who,
		journal:  &journal{Journal: d.Journal},
		shared:   shared,
		slots:    registration.NewSlots(o.Slots, o.Resources.Capacity()),
		spawn:    make(chan *task),
		ended:    make(chan struct{}),
		sweep:    make(chan struct{}, 1),
		retire:   make(chan struct{}, 1),
		machine:  newMachine(),
		tasks:    map[run.Key]*task{},
	}
	a.registration = registration.New(registration.Config{
		API:      a.api,
		Log:      a.log,
		Executor: a.description(),
		Features: d.Driver.Features,
		Check:    a.check,
		Slots:    a.slots,
		Timing: registration.Timing{
			RetryFirst: o.timing.retryFirst,
			RetryLimit: o.timing.retryLimit,
			Call:       o.timing.call,
			Check:      o.timing.check,
			Shutdown:   o.timing.shutdown,
		},
	})
	a.metrics = newMetrics(a)
	if s, ok := d.API.(sessions.API); ok && d.Driver.Features().Exec {
		a.sessions = sessions.New(s, who.ID, a.set(), a.log)
	}
	if err := a.loadJournal(); err != nil {
		return nil, errors.Join(fmt.Errorf("read the executor's journal: %w", err), a.Close())
	}
	return a, nil
}

// identify returns the identity of the executor, from the state dir or from the
// journal that was given.
func identify(j executor.Journal, o Options) (*statedir.Identity, error) {
	switch {
	case j == nil:
		host, err := os.Hostname()
		if err != nil {
			host = ""
		}
		return statedir.Open(o.StateDir, o.ID, host)
	case !statedir.ValidID(o.ID):
		return nil, run.Errorf(run.CodeInvalid, "%q is not an executor id", o.ID)
	}
	return &statedir.Identity{ID: o.ID, JournalID: j.ID()}, nil
}

// ID returns the executor's id.
func (a *Agent) ID() string { return a.identity.ID }

// Pool returns the pool that the executor serves.
func (a *Agent) Pool() string { return a.opts.Pool }

// Set returns the name of the executor set, "" if the executor is not in a set.
func (a *Agent) Set() string { return a.set() }

func (a *Agent) set() string {
	if a.shared == nil {
		return ""
	}
	return a.shared.Set()
}

// Slots returns how many tasks the executor runs at a time.
func (a *Agent) Slots() int { return a.opts.Slots }

// Close releases the state dir. It is for an agent that was never run. Further
// calls, or a call after Run, do nothing.
func (a *Agent) Close() error {
	var err error
	a.closeOnce.Do(func() {
		a.closeCalls()
		for _, t := range a.all() {
			t.closeFile()
		}
		a.journal.seal.Store(true)
		err = errors.Join(a.journal.Close(), a.identity.Close())
	})
	return err
}

// Registered returns a channel that is closed once the gateway has registered the
// executor: its pool exists from then on.
func (a *Agent) Registered() <-chan struct{} { return a.registration.Registered() }

// Health returns nil while the executor accepts tasks, and otherwise the reason why
// not.
func (a *Agent) Health() error { return a.registration.Health() }

// description returns the executor as it registers, without the features of the driver.
func (a *Agent) description() run.Executor {
	return run.Executor{
		ID: a.identity.ID, JournalID: a.identity.JournalID, Pool: a.opts.Pool,
		OS: a.opts.OS, Arch: a.opts.Arch, Labels: a.labels(),
		Slots: a.opts.Slots, Version: a.opts.Version, State: run.ExecutorOnline,
		Set: a.set(), Temporary: a.opts.Temporary || a.shared != nil, RemoveAfter: a.opts.RemoveAfter,
	}
}

// check returns nil if a task can be journaled and started.
func (a *Agent) check(ctx context.Context) error {
	if err := a.journal.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.opts.timing.call)
	defer cancel()
	if err := a.driver.Check(ctx); err != nil {
		return fmt.Errorf("check driver: %w", err)
	}
	return nil
}

// Reserve waits until the executor may poll for a task: a slot is free and the
// executor can run tasks. With labels (see run.LabelsID) it also waits until tasks
// wait that require them; "" is for the tasks that any executor of the pool may run.
// It fails only with ctx. After each success the caller must call release once the
// poll, and the delivery that it returned, are finished.
func (a *Agent) Reserve(ctx context.Context, labels string) (release func(), err error) {
	return a.slots.Reserve(ctx, labels)
}

// WaitingLabels returns the labels that waiting tasks require and this executor has
// (see run.LabelsID), and a channel that is closed when they change.
func (a *Agent) WaitingLabels() ([]string, <-chan struct{}) { return a.slots.Labels() }

// Labelled reports whether the executor has labels of its own, apart from those that
// name its fleet and instance.
func (a *Agent) Labelled() bool { return run.Labelled(a.labels()) }

// labels returns the labels of the executor, with those of its resources.
func (a *Agent) labels() map[string]string {
	all := a.opts.Resources.Labels()
	maps.Copy(all, a.opts.Labels)
	return all
}

// Execute accepts a delivered task. It returns a pending outcome once the claim is
// held and journaled; from then on the task runs independently of ctx. Any other
// outcome means that nothing was, or will be, started for the delivery. Execute
// blocks until Run runs.
func (a *Agent) Execute(ctx context.Context, d Delivery) Outcome {
	out := a.execute(ctx, d)
	out.Executor = a.identity.ID
	return out
}

func (a *Agent) execute(ctx context.Context, d Delivery) Outcome {
	if d.Last != nil {
		return Outcome{Claimed: d.Last}
	}
	if d.Attempt > 1 {
		return Outcome{Claimed: &HeartbeatDetails{Key: d.Key}}
	}
	if !a.beginCall() {
		return Outcome{Requeued: errShutdown.Error()}
	}
	defer a.calls.Done()
	t, fresh := a.getOrAdd(d.Key, true)
	if !fresh {
		return t.deliveredAgain()
	}
	delivered := &delivery{task: t, Delivery: d}
	out := delivered.accept(ctx)
	if out.Pending() && !t.in(keyReleased) {
		select {
		case a.spawn <- t:
			return Outcome{}
		case <-a.ended:
			out = delivered.drop(errShutdown.Error())
		}
	}
	if a.shared != nil && a.shared.Valid() != nil {
		// Another member may have found the key through a write whose answer was lost.
		// Then that member answers, or the set is asked to adopt the key.
		return Outcome{}
	}
	switch {
	case out.Ended != nil:
		t.count(string(out.Ended.Status))
	case out.Requeued != "":
		t.count(outcomeRequeued)
	}
	return out
}

// Adopt takes over a task under a new token. The task continues where it is, or
// Adopt returns the outcome that it never started, if that is certain. An error
// means that the outcome is unknown for now and the caller must repeat the
// adoption.
func (a *Agent) Adopt(ctx context.Context, o Adoption) (Outcome, error) {
	if !a.beginCall() {
		return Outcome{}, run.Errorf(run.CodeUnavailable, "%w", errShutdown)
	}
	defer a.calls.Done()
	for {
		out, err := a.adoptOnce(ctx, o)
		if !errors.Is(err, errErased) { // else the entry of the key moved to another task, or was removed
			return out, err
		}
	}
}

// adoptOnce is Adopt for the entry that the key has now.
func (a *Agent) adoptOnce(ctx context.Context, o Adoption) (Outcome, error) {
	t, fresh := a.getOrAdd(o.Key, false)
	if fresh && a.shared != nil {
		found, err := a.shared.Request(ctx, o.Key, executor.KeyRequest{Token: o.Token})
		if err != nil || found {
			a.forget(t)
			return Outcome{Executor: a.identity.ID}, err
		}
	}
	adopted := &adoption{task: t, Adoption: o}
	adopt := adopted.adopt
	if fresh {
		adopt = adopted.adoptAbsent
	}
	out, err := adopt(ctx)
	out.Executor = a.identity.ID
	return out, err
}

// Stop stops a task; force means without a cleanup. It reports whether the executor
// has the task; the outcome of the task reports its end.
func (a *Agent) Stop(key run.Key, force bool) bool {
	t := a.find(key)
	return t != nil && t.requestStop(force)
}

// StopTask stops a task of this executor, or of another member of its set; force
// means without a cleanup. It reports whether a member has the task. Errors:
// CodeUnavailable, if that is unknown for now.
func (a *Agent) StopTask(ctx context.Context, key run.Key, force bool) (bool, error) {
	if a.Stop(key, force) {
		return true, nil
	}
	if a.shared == nil {
		return false, nil
	}
	return a.shared.Request(ctx, key, executor.KeyRequest{Stop: true, Force: force})
}

// beginCall counts a call that may write to the journal. It returns false if the
// journal is closed to calls.
func (a *Agent) beginCall() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.callsClosed {
		a.calls.Add(1)
	}
	return !a.callsClosed
}

// closeCalls rejects further calls and waits for those that began: their answers
// must be in the journal before another process reads it.
func (a *Agent) closeCalls() {
	a.mu.Lock()
	a.callsClosed = true
	a.mu.Unlock()
	a.calls.Wait()
}

// getOrAdd returns the task of a key, or adds it. One caller at a time thus handles a
// new key; delivered says whether for a delivery.
func (a *Agent) getOrAdd(key run.Key, delivered bool) (t *task, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t, ok := a.tasks[key]; ok {
		return t, false
	}
	t = newTask(a, key)
	t.delivered = delivered
	a.tasks[key] = t
	return t, true
}

// forget removes the task from memory.
func (a *Agent) forget(t *task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tasks[t.key] == t {
		delete(a.tasks, t.key)
	}
}

// all returns the tasks of all keys in memory.
func (a *Agent) all() []*task {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.tasks))
}

// loadJournal loads the keys of the journal.
func (a *Agent) loadJournal() error {
	found, err := a.journal.load()
	if err != nil {
		return err
	}
	for _, l := range found {
		t := newTask(a, l.key)
		active, err := t.restore(l)
		if err != nil {
			return err
		}
		if active {
			a.tasks[l.key] = t
			a.restored = append(a.restored, t)
		}
	}
	return nil
}

// restore restores a task from its journal entry. live is false if the entry needs
// no more work.
func (t *task) restore(l loaded) (active bool, err error) {
	// Torn before its first line was written, or, in a set, requeued and acknowledged.
	acknowledged := l.entry.State == stateClosed && l.entry.Answered
	if l.entry.State == stateNew || acknowledged && t.a.shared != nil {
		return false, l.file.remove()
	}
	if acknowledged {
		wake(t.a.retire)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entry, t.file = l.entry, l.file
	t.restoreStates()
	if acknowledged {
		t.move(eventRetired)
	}
	if l.entry.Damaged {
		t.log.Error("journal entry is damaged")
	}
	if !t.states.in(tokenAnswered, stateClosed) {
		t.move(eventSlotTaken)
	}
	return true, nil
}

func (a *Agent) now() time.Time { return time.Now() }

// hitFailpoint is a failpoint of the protocol.
func (a *Agent) hitFailpoint(p failpoint, key run.Key) {
	if a.opts.OnFailpoint != nil {
		a.opts.OnFailpoint(string(p), key)
	}
}
