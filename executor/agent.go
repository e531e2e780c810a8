package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// Deps is what an agent works with. All but Journal and Logger are required.
type Deps struct {
	Driver Driver
	Desk   run.Desk
	Tokens Tokens
	// Journal remembers the executor's keys; nil means files in the state dir.
	// A Shared one makes the executor a member of its set.
	Journal Journal
	Logger  *slog.Logger // nil: nothing is logged
}

// Options say who an agent is and what it takes.
type Options struct {
	// ID is the executor's id. "" means the one in the state dir, which is
	// made from the host's name where there is none yet. It lasts: a state dir
	// belongs to one id for ever. With a Journal that is given it is required,
	// and there is no state dir.
	ID   string
	Pool string // required
	// Slots is how many tasks run at a time; 0 means 1. Adopted tasks count,
	// and may go beyond it.
	Slots int
	// StateDir holds the id and the journal; required unless a Journal is
	// given. One process holds it at a time.
	StateDir string
	Labels   map[string]string
	Version  string
	// Temporary says that the executor is removed by itself once it was out of
	// contact for RemoveAfter; 0 means run.TemporaryOffline.
	Temporary   bool
	RemoveAfter time.Duration
	// OS and Arch are what tasks run on; "" means this host's.
	OS, Arch string
	// DrainFinish: when its context ends, Run waits for the tasks that run.
	// Else it leaves them to their shims and to the next process.
	DrainFinish bool
	// Interfere, where set, is called at named points of each task's life,
	// between two side effects: tests kill and freeze the process there. The
	// names are those of Points, and the task waits until it returns.
	Interfere func(point string, key run.Key)

	timing timing
}

// timing holds the times of the protocol; tests make some of them shorter.
type timing struct {
	heartbeat  time.Duration // between two heartbeats of a task
	retryFirst time.Duration // first pause before something is tried again
	retryLimit time.Duration // longest such pause
	call       time.Duration // bound of one call
	claim      time.Duration // how long a claim is tried before the task is given back
	stale      time.Duration // without a heartbeat for so long, a launch asks again
	shipWait   time.Duration // how long a completion waits for the frames
	sweep      time.Duration // between two sweeps
	check      time.Duration // between two checks of the driver
	tombstone  time.Duration // how long a closed key is remembered
	farewell   time.Duration // bound of the last words of a process
	prepare    time.Duration // bound of finding an archive, or a place for one
	stall      time.Duration // how long the desk may take over a part of an archive
}

func defaultTiming() timing {
	return timing{
		heartbeat:  5 * time.Second,
		retryFirst: 200 * time.Millisecond,
		retryLimit: 5 * time.Second,
		call:       10 * time.Second,
		claim:      10 * time.Second,
		stale:      15 * time.Second, // half of the heartbeat timeout
		shipWait:   10 * time.Second,
		sweep:      30 * time.Second,
		check:      30 * time.Second,
		tombstone:  time.Hour,
		farewell:   5 * time.Second,
		prepare:    30 * time.Second,
		stall:      time.Minute,
	}
}

// Agent is one executor: it owns the journal of a state dir and the life of
// the tasks in it. Its methods are safe for concurrent use.
type Agent struct {
	driver  Driver
	desk    run.Desk
	tokens  Tokens
	log     *slog.Logger
	opts    Options
	who     *identity
	journal *journal
	shared  Shared // the journal, where the executor is a member of a set; else nil
	slots   *slots
	metrics *metrics

	spawn  chan *task    // tasks to be run, taken by Run
	ended  chan struct{} // closed when Run takes none any more
	ailing chan struct{} // of capacity 1: wakes the health loop
	sweep  chan struct{} // of capacity 1: wakes the sweep
	vital  chan struct{} // of capacity 1: has the registration renewed at once
	retire chan struct{} // of capacity 1: wakes the loop over retired keys
	known  chan struct{} // closed when the executor was registered

	closing sync.Once
	knowing sync.Once

	calls    sync.WaitGroup // of Execute and Adopt; counted up under mu
	mu       sync.Mutex
	shut     bool // no call is taken any more
	tasks    map[run.Key]*task
	draining bool
	// drainWanted says that the gateway wants no tasks taken for now.
	drainWanted bool
	unwell      error // why no tasks are asked for; nil: nothing is wrong
	ills        int   // how often suspend was called
}

// NewAgent opens the state dir, which Run, or else Close, gives back. Errors:
// CodeInvalid for missing options, CodeConflict where another process holds
// the state dir or it belongs to another id.
func NewAgent(d Deps, o Options) (*Agent, error) {
	if o.Pool == "" || o.StateDir == "" && d.Journal == nil || d.Driver == nil || d.Desk == nil || d.Tokens == nil {
		return nil, run.Errorf(run.CodeInvalid, "an executor needs a pool, a state dir or a journal, a driver, a desk and tokens")
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
		return nil, fmt.Errorf("opening executor's state: %w", err)
	}
	if d.Journal == nil {
		d.Journal = &files{dir: filepath.Join(o.StateDir, journalName), id: who.journalID}
	}
	shared, _ := d.Journal.(Shared)
	a := &Agent{
		driver:  d.Driver,
		desk:    d.Desk,
		tokens:  d.Tokens,
		log:     d.Logger.With(slog.String("executor", who.id)),
		opts:    o,
		who:     who,
		journal: &journal{Journal: d.Journal},
		shared:  shared,
		slots:   newSlots(o.Slots),
		spawn:   make(chan *task),
		ended:   make(chan struct{}),
		ailing:  make(chan struct{}, 1),
		sweep:   make(chan struct{}, 1),
		vital:   make(chan struct{}, 1),
		retire:  make(chan struct{}, 1),
		known:   make(chan struct{}),
		tasks:   map[run.Key]*task{},
		unwell:  errNotRegistered,
	}
	a.metrics = newMetrics(a)
	if err := a.recall(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading executor's journal: %w", err), a.Close())
	}
	return a, nil
}

// identify returns who the executor is: by the state dir, or by the journal
// that was given.
func identify(j Journal, o Options) (*identity, error) {
	switch {
	case j == nil:
		host, err := os.Hostname()
		if err != nil {
			host = ""
		}
		return openIdentity(o.StateDir, o.ID, host)
	case !validID(o.ID):
		return nil, run.Errorf(run.CodeInvalid, "%q is not an executor id", o.ID)
	}
	return &identity{id: o.ID, journalID: j.ID()}, nil
}

// ID returns the executor's id.
func (a *Agent) ID() string { return a.who.id }

// Pool returns the pool that the executor serves.
func (a *Agent) Pool() string { return a.opts.Pool }

// Set returns the name of the executor set, "" where the executor is of none.
func (a *Agent) Set() string { return a.set() }

func (a *Agent) set() string {
	if a.shared == nil {
		return ""
	}
	return a.shared.Set()
}

// Slots returns how many tasks the executor runs at a time.
func (a *Agent) Slots() int { return a.opts.Slots }

// Close gives the state dir back. It is for an agent that was never run;
// calling it again, or after Run, does nothing.
func (a *Agent) Close() error {
	var err error
	a.closing.Do(func() {
		a.shutCalls()
		for _, t := range a.all() {
			t.closeFile()
		}
		a.journal.seal.Store(true)
		err = errors.Join(a.journal.Close(), a.who.close())
	})
	return err
}

// Reserve waits until a task may be asked for: a slot is free, and the
// executor can run tasks now. It fails only with ctx. Each success must be
// followed by Unreserve when the poll, and the delivery it brought, are over.
func (a *Agent) Reserve(ctx context.Context) error { return a.slots.reserve(ctx) }

// Unreserve ends a reservation.
func (a *Agent) Unreserve() { a.slots.unreserve() }

// Execute takes a task that was delivered: it returns a pending outcome when
// the claim is held and written down, and runs the task from then on whatever
// becomes of ctx. Any other outcome means that nothing was, or will be,
// started for the delivery. It blocks until Run runs.
func (a *Agent) Execute(ctx context.Context, d Delivery) Outcome {
	out := a.execute(ctx, d)
	out.Executor = a.who.id
	return out
}

func (a *Agent) execute(ctx context.Context, d Delivery) Outcome {
	if d.Last != nil {
		return Outcome{Claimed: d.Last}
	}
	if d.Attempt > 1 {
		return Outcome{Claimed: &HeartbeatDetails{Key: d.Key}}
	}
	if !a.begin() {
		return Outcome{GivenBack: errShutdown.Error()}
	}
	defer a.calls.Done()
	t, fresh := a.enter(d.Key)
	if !fresh {
		return t.deliveredAgain()
	}
	out := t.claim(ctx, d)
	if out.Pending() && !t.isLost() {
		select {
		case a.spawn <- t:
			return Outcome{}
		case <-a.ended:
			out = t.drop(errShutdown.Error())
		}
	}
	if a.shared != nil && a.shared.Valid() != nil {
		// Another member may have found the key, by a write whose answer was
		// lost: it answers, or the set is asked to adopt it.
		return Outcome{}
	}
	switch {
	case out.Ended != nil:
		t.count(string(out.Ended.Status))
	case out.GivenBack != "":
		t.count(givenBack)
	}
	return out
}

// Adopt takes a task over under a new token: it goes on where it is, or gets
// the outcome that it never started, if that is certain. An error means that
// it can not be told now: the order must be given again.
func (a *Agent) Adopt(ctx context.Context, o Adoption) (Outcome, error) {
	if !a.begin() {
		return Outcome{}, run.Errorf(run.CodeUnavailable, "%w", errShutdown)
	}
	defer a.calls.Done()
	t, fresh := a.enter(o.Key)
	if fresh && a.shared != nil {
		found, err := a.shared.Order(ctx, o.Key, Order{Token: o.Token})
		if err != nil || found {
			a.forget(t)
			return Outcome{Executor: a.who.id}, err
		}
	}
	adopt := t.adopt
	if fresh {
		adopt = t.adoptAbsent
	}
	out, err := adopt(ctx, o)
	out.Executor = a.who.id
	return out, err
}

// Stop stops a task. It reports whether the executor has it; its end is told
// by its outcome.
func (a *Agent) Stop(key run.Key) bool {
	t := a.find(key)
	return t != nil && t.wantStop()
}

// StopTask stops a task that this executor has, or another member of its set.
// It reports whether one has it. Errors: CodeUnavailable, where that can not be
// told now.
func (a *Agent) StopTask(ctx context.Context, key run.Key) (bool, error) {
	if a.Stop(key) {
		return true, nil
	}
	if a.shared == nil {
		return false, nil
	}
	return a.shared.Order(ctx, key, Order{Stop: true})
}

// begin counts a call that may write to the journal, if it is still open.
func (a *Agent) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.shut {
		a.calls.Add(1)
	}
	return !a.shut
}

// shutCalls takes no more calls, and waits for those that began: what they
// answer must be in the journal before another process reads it.
func (a *Agent) shutCalls() {
	a.mu.Lock()
	a.shut = true
	a.mu.Unlock()
	a.calls.Wait()
}

// enter returns what is known of a key, or makes it known, so that one caller
// at a time deals with a new one.
func (a *Agent) enter(key run.Key) (t *task, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t, ok := a.tasks[key]; ok {
		return t, false
	}
	t = newTask(a, key)
	a.tasks[key] = t
	return t, true
}

// forget ends what is known of a key.
func (a *Agent) forget(t *task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tasks[t.key] == t {
		delete(a.tasks, t.key)
	}
}

// all returns what is known of all keys.
func (a *Agent) all() []*task {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.tasks))
}

// recall makes known what the journal holds.
func (a *Agent) recall() error {
	found, err := a.journal.load()
	if err != nil {
		return err
	}
	for _, l := range found {
		t := newTask(a, l.key)
		live, err := t.recall(l)
		if err != nil {
			return err
		}
		if live {
			a.tasks[l.key] = t
		}
	}
	return nil
}

// recall makes a new task what the journal says. live is false where that is
// nothing any more.
func (t *task) recall(l loaded) (live bool, err error) {
	// Torn before its first line was written, or, in a set, given back and heard.
	heard := l.entry.State == stateClosed && l.entry.Answered
	if l.entry.State == stateNew || heard && t.a.shared != nil {
		return false, l.file.remove()
	}
	if heard {
		wake(t.a.retire)
	}
	t.mu.Lock()
	t.entry, t.file, t.retired = l.entry, l.file, heard
	t.mu.Unlock()
	if l.entry.Damaged {
		t.log.Error("journal entry is damaged")
	}
	if t.lives() && !l.entry.Answered && l.entry.State != stateClosed {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.takeSlot()
	}
	return true, nil
}

func (a *Agent) now() time.Time { return time.Now() }

// at is a point of the protocol at which tests interfere.
func (a *Agent) at(p point, key run.Key) {
	if a.opts.Interfere != nil {
		a.opts.Interfere(string(p), key)
	}
}
