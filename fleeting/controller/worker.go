package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Deps holds the dependencies of a Worker. Every field is required but Metrics.
type Deps struct {
	Store  Store
	Open   Opener
	Logger *slog.Logger
	// Bootstrap turns instances into executors if the image does not.
	Bootstrap Bootstrapper
	Metrics   *Metrics // nil: a set that is not registered
	Now       func() time.Time
}

// Worker manages the plugins of fleets. It is safe for concurrent use.
type Worker struct {
	store     Store
	open      Opener
	bootstrap Bootstrapper
	logger    *slog.Logger
	metrics   *Metrics
	now       func() time.Time

	mu     sync.Mutex
	fleets map[string]*fleet
}

// New returns a Worker. It starts no plugin.
func New(deps Deps) *Worker {
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Worker{
		store: deps.Store, open: deps.Open, bootstrap: deps.Bootstrap, logger: deps.Logger, metrics: deps.Metrics, now: deps.Now,
		fleets: map[string]*fleet{},
	}
}

// fleet is the state that this process has of one fleet. Another process needs
// none of it.
type fleet struct {
	w     *Worker
	name  string
	group opened

	mu       sync.Mutex
	info     fleeting.Info
	connects map[string]fleeting.ConnectInfo
	change   string // the step that creates or deletes machines
	changed  string // the last such step that has ended
	// bootstraps cancel the running bootstraps, by the number of the ledger row.
	bootstraps map[int]context.CancelCauseFunc
	// last is the plugin's latest listing; the call began at lastAt.
	last   listing
	lastAt time.Time
	// refusal is the plugin's answer to a request that it refused, until the
	// ledger has it: a listing comes first.
	refusal string
	// undeleted has the plugin's errors from the last call that deleted each
	// instance.
	undeleted map[string]string

	// listMu serializes the bootstraps that need a new listing, so that they
	// share it.
	listMu sync.Mutex

	// ledgerMu is held from a listing until the ledger has it, so that an older
	// listing cannot overwrite a newer one. It is also held from a read of the
	// ledger until the resulting changes are written. It is not held during
	// calls that create or delete machines.
	ledgerMu      sync.Mutex
	wasBusy       map[int]bool
	checked       time.Time       // time of the last health check of all instances
	synced        bool            // the ledger has had a listing from this process
	goneInstances map[string]bool // instances that the ledger records as gone; not all of them
	// lostRequest is a requested machine that was lost before it ran, until a plan
	// counts the failure.
	lostRequest records.LedgerRow
	statusAt    time.Time // when the status was written
	// failedListings are those in a row, also of earlier watches.
	failedListings failedListings
}

func (w *Worker) fleet(name string) *fleet {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.fleets[name]
	if !ok {
		f = &fleet{
			w: w, name: name, wasBusy: map[int]bool{}, goneInstances: map[string]bool{}, undeleted: map[string]string{},
			connects: map[string]fleeting.ConnectInfo{}, bootstraps: map[int]context.CancelCauseFunc{},
		}
		w.fleets[name] = f
	}
	return f
}

// Release detaches from the plugin of a fleet, so that another worker can attach.
func (w *Worker) Release(name string) error {
	w.mu.Lock()
	f, ok := w.fleets[name]
	delete(w.fleets, name)
	w.mu.Unlock()
	if !ok {
		return nil
	}
	w.metrics.forget(name)
	return f.group.close()
}

// list calls the plugin for all instances.
func (f *fleet) list(ctx context.Context, spec run.Fleet) (Group, listing, error) {
	group, err := f.group.get(ctx, f.w.open, spec)
	if err != nil {
		return nil, nil, fmt.Errorf("open the plugin: %w", err)
	}
	info, err := group.Init(ctx)
	if err != nil {
		return nil, nil, err
	}
	at := f.w.now()
	all, err := group.Update(ctx)
	if err != nil {
		f.w.metrics.countMissedUpdate(f.name)
		return nil, nil, err
	}
	found := listingOf(all)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.info, f.last, f.lastAt = info, found, at
	return group, found, nil
}

// begin and end record a step that creates or deletes machines. ownsChange
// reports whether this process began the step, and ended whether it ended here.
func (f *fleet) begin(change string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change = change
}

func (f *fleet) end(change string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change = ""
	if err == nil {
		f.changed = change
	}
}

func (f *fleet) ownsChange(change string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return change == "" || change == f.change || change == f.changed
}

func (f *fleet) ended(change string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return change == f.changed
}

// updateLedger updates the ledger from the plugin's listing, if there is one, and from
// the executors in the records. It returns the resulting view. The caller holds
// ledgerMu.
func (f *fleet) updateLedger(ctx context.Context, listed listing, group Group) (records.FleetView, error) {
	v, err := f.w.store.ViewFleet(ctx, f.name)
	if err != nil {
		return v, err
	}
	o := observed{now: f.w.now(), view: v, listed: listed, wasBusy: f.wasBusy, first: !f.synced}
	if err := f.loadGoneInstances(ctx, &o); err != nil {
		return v, err
	}
	if group != nil {
		f.check(ctx, group, &o)
	}
	changes := observe(o)
	busy := map[int]bool{}
	for _, r := range rowsOf(v) {
		busy[r.Number] = r.busy() > 0
	}
	f.wasBusy = busy
	b := changeSet{changes: changes}
	if !b.empty() {
		if err := f.write(ctx, v, changes); err != nil {
			return v, err
		}
		f.logUnlisted(ctx, changes)
		if r, ok := earlyLoss(changes); ok {
			f.lostRequest = r
		}
		if v, err = f.w.store.ViewFleet(ctx, f.name); err != nil {
			return v, err
		}
	}
	f.synced = f.synced || listed != nil
	rows := rowsOf(v)
	f.cancelStaleBootstraps(rows)
	return v, f.drainUnlisted(ctx, rows)
}

// write writes changes of the ledger, and updates the metrics and the log.
func (f *fleet) write(ctx context.Context, v records.FleetView, c records.FleetChanges) error {
	if _, err := f.w.store.ChangeFleet(ctx, f.name, c); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	f.w.metrics.observeChanges(f.name, v, c, f.w.now())
	for _, change := range slices.Concat(c.Set, c.Add) {
		if change.Event != nil {
			f.w.logger.InfoContext(ctx, "instance", "fleet", f.name, "number", change.Number, "instance", change.Instance,
				"event", change.Event.Kind, "reason", change.Event.Reason, "why", change.Event.Text)
		}
	}
	return nil
}

// healthChecks bounds the concurrent health checks.
const healthChecks = 10

// check checks the health of the running instances at the long update interval,
// and of those that failed the last check each time.
func (f *fleet) check(ctx context.Context, group Group, o *observed) {
	spec := o.view.Fleet.Spec
	all := o.now.Sub(f.checked) >= spec.Interval(false)
	o.unhealthy, o.healthy = map[string]bool{}, map[string]bool{}
	var mu sync.Mutex
	var checks errgroup.Group
	checks.SetLimit(healthChecks)
	for _, r := range rowsOf(o.view) {
		state, _ := o.listed.has(r.Instance)
		if r.Instance == "" || state != fleeting.StateRunning || r.terminating() || !all && r.Failures == 0 {
			continue
		}
		checks.Go(func() error {
			err := group.Heartbeat(ctx, r.Instance)
			mu.Lock()
			defer mu.Unlock()
			_, answered := errors.AsType[*fleeting.CallError](err)
			switch {
			case err == nil:
				o.healthy[r.Instance] = r.Failures > 0
			case answered || errors.Is(err, fleeting.ErrUnhealthy):
				o.unhealthy[r.Instance] = true
			}
			return nil // a plugin that does not answer reveals nothing about the instance
		})
	}
	_ = checks.Wait()
	if all {
		f.checked = o.now
	}
}

// maxSize returns the limit of the plugin, 0 for none.
func (f *fleet) maxSize() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maxSizeOf(int64(f.info.MaxSize))
}

// maxSizeOf returns the limit of a plugin that reports the given maximum size, 0
// for none.
func maxSizeOf(size int64) int {
	if size <= 0 || size > scaling.MaxInstances {
		return 0
	}
	return int(size)
}
