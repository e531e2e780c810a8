package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

const fleetName = "linux"

// cloud is an instance group in memory, with injected faults.
type cloud struct {
	mu        sync.Mutex
	instances map[string]fleeting.State
	made      int
	opened    int // number of times that a worker opened it
	updates   int // number of listings
	increases []int
	decreases [][]string
	unhealthy map[string]bool
	hidden    map[string]bool // not listed
	onUpdate  error
	onTry     func() // called at each listing, also at one that fails; nil: nothing
	// increase and decrease replace the default behavior if they are not nil.
	increase func(c *cloud, n int) (int, error)
	decrease func(c *cloud, ids []string) ([]string, error)
	shutdown int
	restarts int
	// hang, if not nil, blocks Increase until it is closed.
	hang chan struct{}
	// hangUpdate, if not nil, blocks Update until it is closed.
	hangUpdate chan struct{}
}

var _ controller.Group = (*cloud)(nil)

func (c *cloud) Init(context.Context) (fleeting.Info, error) {
	return fleeting.Info{ID: "cloud/one", Version: "1", MaxSize: 1000}, nil
}

func (c *cloud) Update(ctx context.Context) ([]fleeting.Instance, error) {
	var hang chan struct{}
	if c.do(func() { hang = c.hangUpdate }); hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onTry != nil {
		c.onTry()
	}
	if c.onUpdate != nil {
		return nil, c.onUpdate
	}
	c.updates++
	var out []fleeting.Instance
	for id, state := range c.instances {
		if !c.hidden[id] {
			out = append(out, fleeting.Instance{ID: id, State: state})
		}
		if state == fleeting.StateCreating {
			c.instances[id] = fleeting.StateRunning
		}
	}
	return out, nil
}

// add creates machines. The caller holds the lock.
func (c *cloud) add(n int) {
	for range n {
		c.made++
		c.instances[fmt.Sprintf("vm-%d", c.made)] = fleeting.StateCreating
	}
}

func (c *cloud) Increase(ctx context.Context, n int) (made int, err error) {
	hang := func() chan struct{} {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.increases = append(c.increases, n)
		if c.increase != nil {
			made, err = c.increase(c, n)
			return c.hang
		}
		c.add(n)
		made = n
		return c.hang
	}()
	if hang == nil {
		return made, err
	}
	select {
	case <-hang:
		return made, err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (c *cloud) Decrease(_ context.Context, ids []string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decreases = append(c.decreases, slices.Clone(ids))
	if c.decrease != nil {
		return c.decrease(c, ids)
	}
	for _, id := range ids {
		delete(c.instances, id)
	}
	return ids, nil
}

func (c *cloud) ConnectInfo(_ context.Context, id string) (fleeting.ConnectInfo, error) {
	return fleeting.ConnectInfo{ID: id, InternalAddr: "127.0.0.1"}, nil
}

func (c *cloud) Heartbeat(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unhealthy[id] {
		return fleeting.ErrUnhealthy
	}
	return nil
}

func (c *cloud) Restart(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restarts++
	return nil
}

func (c *cloud) Shutdown(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shutdown++
	return nil
}

func (c *cloud) Close() error { return nil }

func (c *cloud) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cloud) running() (ids []string) {
	c.do(func() {
		for id, state := range c.instances {
			if state == fleeting.StateRunning && !c.hidden[id] {
				ids = append(ids, id)
			}
		}
	})
	slices.Sort(ids)
	return ids
}

// env is a fleet with its records, its cloud, and agents on its machines.
type env struct {
	t       *testing.T
	name    string // of the fleet
	pool    string // of the fleet; equal to its name unless a test sets another
	cloud   *cloud
	store   records.Store
	engine  *engine.Engine
	fleets  *engine.Fleets
	worker  *controller.Worker
	metrics *controller.Metrics
	steps   int

	mu     sync.Mutex
	silent map[string]bool // machines whose agents send nothing
	agents map[string]*agent
	// bootstrapRuns holds the rows whose bootstrap runs.
	bootstrapRuns map[int]bool
	// durable holds the executors of the pool that belong to no fleet and have
	// no task.
	durable     []string
	clockOffset atomic.Int64 // offset of the worker's clock, see clock
	frozenAt    atomic.Int64 // Unix time at which the worker's clock stands still; 0: it runs
	// running lists the running machines that may have an agent.
	running func() []string
	// open and bootstrapper are dependencies of the worker.
	open         controller.Opener
	bootstrapper controller.Bootstrapper
	// onBootstrap, if not nil, is called with the numbers of instances just
	// before their bootstrap.
	onBootstrap func(numbers []int)
}

type agent struct {
	id    string
	drain bool
	tasks map[run.Key]bool
}

func newEnv(t *testing.T) *env {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{})
	require.NoError(t, err)
	bucket, err := blobs.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(store.Close(), bucket.Close())) })
	return newEnvOn(t, fleetName, store, engine.New(engine.Deps{Store: store, Logs: bucket, Logger: slog.New(slog.DiscardHandler)}))
}

// newEnvOn returns another fleet on existing records, with its own cloud and
// worker.
func newEnvOn(t *testing.T, name string, store records.Store, e *engine.Engine) *env {
	t.Helper()
	return newPoolEnv(t, name, name, store, e)
}

// newPoolEnv returns another fleet of a pool.
func newPoolEnv(t *testing.T, name, pool string, store records.Store, e *engine.Engine) *env {
	t.Helper()
	w := &env{
		t: t, name: name, pool: pool, store: store, cloud: &cloud{instances: map[string]fleeting.State{}, unhealthy: map[string]bool{}, hidden: map[string]bool{}},
		engine: e, fleets: engine.NewFleets(store), silent: map[string]bool{}, agents: map[string]*agent{}, bootstrapRuns: map[int]bool{},
	}
	w.running = w.cloud.running
	w.open = func(context.Context, run.Fleet) (controller.Group, error) {
		w.cloud.do(func() { w.cloud.opened++ })
		return w.cloud, nil
	}
	w.newWorker()
	_, _, err := e.PutPool(t.Context(), run.Pool{Name: pool, Driver: run.DriverShell})
	require.NoError(t, err)
	return w
}

// newWorker replaces the worker, as a new process does.
func (w *env) newWorker() {
	w.metrics = controller.NewMetrics()
	w.worker = controller.New(controller.Deps{
		Metrics: w.metrics, Store: w.store, Logger: slog.New(slog.DiscardHandler), Now: w.now,
		Open: func(ctx context.Context, f run.Fleet) (controller.Group, error) { return w.open(ctx, f) }, Bootstrap: w.bootstrapper,
	})
}

// now returns the time of the worker's clock.
func (w *env) now() time.Time {
	now := time.Now()
	if at := w.frozenAt.Load(); at > 0 {
		now = time.Unix(at, 0)
	}
	return now.Add(time.Duration(w.clockOffset.Load()))
}

// freeze makes the worker's clock stand still, a little after the settings of
// the fleet were written.
func (w *env) freeze() { w.frozenAt.Store(time.Now().Add(time.Minute).Unix()) }

// clock moves the worker's clock forward.
func (w *env) clock(by time.Duration) { w.clockOffset.Add(int64(by)) }

// awaitWithin waits while the worker's frozen clock moves, by up to a total of
// limit: what becomes due after that stays undue, however slow the machine is.
func (w *env) awaitWithin(limit time.Duration, what string, cond func() bool) {
	w.t.Helper()
	const step = 200 * time.Millisecond
	moved := time.Duration(0)
	w.await(what, func() bool {
		if cond() {
			return true
		}
		if moved+step <= limit {
			moved += step
			w.clock(step)
			w.wake()
		}
		return false
	})
}

// wake makes the worker observe the fleet: it does not notice that its frozen
// clock has moved.
func (w *env) wake() {
	w.t.Helper()
	_, err := w.store.ChangeFleet(w.t.Context(), w.name, records.FleetChanges{
		Events: []run.FleetEvent{{At: w.now(), Kind: "clock_moved", By: "tester"}},
	})
	require.NoError(w.t, err)
}

// quick returns the spec of a fleet with short intervals.
func quick(change func(*run.FleetSpec)) run.FleetSpec {
	none := run.Duration(0)
	s := run.FleetSpec{
		Plugin: "none", UpdateInterval: run.Duration(20 * time.Millisecond),
		UpdateIntervalWhenExpecting: run.Duration(10 * time.Millisecond), DeletionRetryInterval: run.Duration(50 * time.Millisecond),
		Scaling: run.Scaling{HoldDown: &none},
	}
	if change != nil {
		change(&s)
	}
	return s
}

func (w *env) put(change func(*run.FleetSpec)) {
	w.t.Helper()
	spec := quick(change)
	spec.Pool = w.pool
	_, _, err := w.fleets.PutFleet(w.t.Context(), w.name, spec, "tester")
	require.NoError(w.t, err)
}

// start runs the fleet as its workflow does, until the test ends or stop is
// called.
func (w *env) start() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var group sync.WaitGroup
	group.Go(func() { w.runFleetWorkflow(ctx) })
	idle := testenv.Watch(w.t, 10*time.Millisecond, func() { w.tick(ctx) })
	stop = sync.OnceFunc(func() { cancel(); idle(); group.Wait() })
	w.t.Cleanup(stop)
	return stop
}

// agentOf returns the executor id of a machine; clouds of several fleets use
// the same names.
func (w *env) agentOf(machine string) string {
	if w.name == fleetName {
		return "x-" + machine
	}
	return w.name + "-" + machine
}

// tick runs one round of the agents on the machines.
func (w *env) tick(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.durable {
		_, _ = w.store.RenewExecutor(ctx, run.Renewal{Executor: id, JournalID: "j"})
	}
	for _, id := range w.running() {
		if w.silent[id] {
			continue
		}
		a := w.agents[id]
		if a == nil {
			a = &agent{id: w.agentOf(id), tasks: map[run.Key]bool{}}
			_, err := w.store.RegisterExecutor(ctx, run.Executor{
				ID: a.id, Pool: w.pool, Driver: run.DriverShell, OS: "linux", Arch: "amd64", Slots: 1, JournalID: "j", Temporary: true,
				Fleet: w.name, Instance: id,
			})
			if err != nil {
				continue
			}
			w.agents[id] = a
		}
		desired, err := w.store.RenewExecutor(ctx, run.Renewal{
			Executor: a.id, JournalID: "j", SlotsUsed: len(a.tasks), Draining: a.drain, Drained: a.drain && len(a.tasks) == 0,
		})
		if err == nil {
			a.drain = desired.Drain
		}
	}
}

// submit queues tasks.
func (w *env) submit(n int) run.ID {
	w.t.Helper()
	return w.submitRequiring(nil, n)
}

// submitRequiring does what submit does, with tasks that require labels.
func (w *env) submitRequiring(requires *run.Requires, n int) run.ID {
	w.t.Helper()
	tasks := map[string]*run.TaskSpec{}
	for i := range n {
		tasks[fmt.Sprintf("t%03d", i)] = &run.TaskSpec{Pool: w.pool, Requires: requires, Steps: []run.Step{{Run: "true"}}}
	}
	r, err := w.engine.Create(w.t.Context(), run.CreateRequest{Spec: &run.Spec{Name: "n", Group: "/a/b", Tasks: tasks}})
	require.NoError(w.t, err)
	_, err = w.store.Begin(w.t.Context(), r.ID)
	require.NoError(w.t, err)
	var changes records.Changes
	for i := range n {
		changes.Tasks = append(changes.Tasks, run.TaskChange{Task: i, Attempt: 1, Dispatch: 1, Status: run.StatusQueued})
	}
	_, _, err = w.store.Apply(w.t.Context(), r.ID, changes)
	require.NoError(w.t, err)
	return r.ID
}

// claim claims a task for the agent of a machine.
func (w *env) claim(id run.ID, task int, machine string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.agents[machine]
	key := run.Key{Run: id, Task: task, Attempt: 1, Dispatch: 1}
	_, err := w.store.Claim(w.t.Context(), run.ClaimRequest{Key: key, Executor: a.id, JournalID: "j"})
	if err == nil {
		a.tasks[key] = true
	}
	return err
}

// finish finishes a task.
func (w *env) finish(id run.ID, task int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	key := run.Key{Run: id, Task: task, Attempt: 1, Dispatch: 1}
	for _, a := range w.agents {
		delete(a.tasks, key)
	}
	_, _, err := w.store.Apply(w.t.Context(), id, records.Changes{Tasks: []run.TaskChange{{
		Task: task, Attempt: 1, Dispatch: 1, Status: run.StatusSuccess, Result: &run.TaskResult{Status: run.StatusSuccess},
	}}})
	require.NoError(w.t, err)
}

func (w *env) ledger() []run.FleetInstance {
	all, err := w.store.FleetInstances(w.t.Context(), w.name, true)
	if err != nil && w.t.Context().Err() == nil {
		w.t.Errorf("read the ledger: %v", err)
	}
	return all
}

// in returns the instances in a state.
func (w *env) in(state run.InstanceState) (out []run.FleetInstance) {
	for _, i := range w.ledger() {
		if i.State == state {
			out = append(out, i)
		}
	}
	return out
}

func (w *env) await(what string, cond func() bool) {
	w.t.Helper()
	testenv.Await(w.t, func() (bool, string) {
		if cond() {
			return true, ""
		}
		text := what + " did not happen; the ledger is"
		for _, i := range w.ledger() {
			text += fmt.Sprintf("\n  #%d %s %s %s: %s (%s) tasks %d", i.Number, i.Instance, i.State, i.Cause, i.Message, i.Reason, i.Tasks)
		}
		return false, text
	})
}

func (w *env) awaitCount(state run.InstanceState, n int) {
	w.t.Helper()
	w.await(fmt.Sprintf("%d %s", n, state), func() bool { return len(w.in(state)) == n })
}

// awaitEmpty waits until no instance is left, in the ledger and in the cloud.
func (w *env) awaitEmpty() {
	w.t.Helper()
	w.await("an empty fleet", func() bool {
		left := 0
		w.cloud.do(func() { left = len(w.cloud.instances) })
		return left == 0 && !slices.ContainsFunc(w.ledger(), func(i run.FleetInstance) bool { return i.State != run.InstanceGone })
	})
}

// awaitEmptyBut waits until a machine is gone; there may be new ones.
func (w *env) awaitEmptyBut(machine string) {
	w.t.Helper()
	w.await("the end of "+machine, func() bool {
		return slices.ContainsFunc(w.in(run.InstanceGone), func(i run.FleetInstance) bool { return i.Instance == machine })
	})
}
