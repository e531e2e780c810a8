package fleeting

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/drover-run/drover/fleeting/wire"
	"github.com/drover-run/drover/internal/dirlock"
)

// Host drives one instance group. Its methods may be called concurrently.
// Changes run one at a time, and a listing waits for a running change for a
// limited time (Timeouts.ListingWait), because GitLab's fleeting host overlaps
// neither.
type Host struct {
	o        Options
	binary   string
	settings string
	lock     *flock.Flock
	logs     *logs
	changes  chan struct{} // held by a change, or by a listing that must not overlap one
	listing  chan struct{} // held by a listing

	changeBegan atomic.Pointer[time.Time] // nil: no change runs

	launching chan struct{} // guards current: held while the process is checked or launched
	current   *process
	closed    bool
	closing   context.Context //nolint:containedctx // ends with the host
	end       context.CancelCauseFunc
	calls     sync.WaitGroup

	launches launches // that failed
}

// Open acquires the group for this process. It takes over the plugin that an
// earlier host left, or launches and initialises one. If the earlier plugin has
// other settings or another binary, Open ends it first.
func Open(ctx context.Context, o Options) (*Host, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open a plugin host: %w", err)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the group's directory: %w", err)
	}
	h := &Host{o: o, changes: make(chan struct{}, 1), listing: make(chan struct{}, 1), launching: make(chan struct{}, 1)}
	h.closing, h.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if h.settings, err = o.settingsDigest(); err != nil {
		return nil, err
	}
	h.lock, err = dirlock.Take(o.Dir) //nolint:contextcheck // waits for two seconds at most
	if errors.Is(err, dirlock.ErrHeld) {
		return nil, fmt.Errorf("open a plugin host: %w: %w", ErrOwned, err)
	} else if err != nil {
		return nil, fmt.Errorf("open a plugin host: %w", err)
	}
	if h.logs, err = openLogs(o.Dir, o.Logger); err == nil { //nolint:contextcheck // logs belong to no call
		err = h.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.release())
	}
	return h, nil
}

// begin takes over or launches the first process.
func (h *Host) begin(ctx context.Context) error {
	r, err := readRecord(h.o.Dir)
	if err != nil {
		h.o.Logger.WarnContext(ctx, "failed to read the record of an earlier host", "error", err)
	}
	if h.binary, err = digestOf(h.o.Plugin); err != nil {
		return err
	}
	if h.launches, err = readLaunches(h.o.Dir, h.binary, h.settings); err != nil {
		h.o.Logger.WarnContext(ctx, "failed to read the launches of an earlier host", "error", err)
	}
	pid, err := runningGuard(h.o.Dir)
	if err != nil {
		return err
	}
	if pid > 0 && r.Ready && r.PID == pid {
		if p, err := attach(r, h.logs); err != nil {
			h.o.Logger.WarnContext(ctx, "the plugin of an earlier host does not answer", "pid", pid, "error", err)
		} else if h.adopt(ctx, p) {
			return nil
		}
	}
	if err := evict(ctx, h.o.Dir); err != nil {
		return err
	}
	r.removeSockets()
	removeStaleSockets(h.o.Dir)
	_, err = h.process(ctx)
	return err
}

// adopt keeps the plugin of an earlier host if its settings and binary match.
// Otherwise it shuts the plugin down and ends it.
func (h *Host) adopt(ctx context.Context, p *process) bool {
	switch {
	case !p.answers(pingTimeout):
	case p.record.Binary == h.binary && p.record.Settings == h.settings:
		h.o.Logger.InfoContext(ctx, "took over the plugin of an earlier host", "pid", p.record.PID, "group", p.record.Info.ID)
		h.current = p
		return true
	default:
		h.o.Logger.InfoContext(ctx, "ending the plugin of an earlier host, which has other settings", "pid", p.record.PID)
		ctx, cancel := context.WithTimeout(ctx, h.o.Timeouts.Shutdown)
		defer cancel()
		if _, err := p.api.Shutdown(ctx, &wire.Empty{}); err != nil {
			h.o.Logger.WarnContext(ctx, "failed to shut down the earlier plugin", "error", err)
		}
	}
	if err := p.quit(ctx, h.o.Dir); err != nil {
		h.o.Logger.WarnContext(ctx, "failed to end the earlier plugin", "error", err)
	}
	return false
}

// Close leaves the plugin to the next host, which must open the group within
// the grace period.
func (h *Host) Close() error {
	h.end(ErrClosed)
	h.calls.Wait()
	h.launching <- struct{}{}
	defer func() { <-h.launching }()
	if h.closed {
		return nil
	}
	h.closed = true
	if h.current != nil {
		h.current.detach()
	}
	return h.release()
}

// Shutdown makes the plugin remove its own resources, such as uploaded keys,
// and ends it. Instances stay.
func (h *Host) Shutdown(ctx context.Context) error {
	_, err := call(ctx, h, "Shutdown", h.o.Timeouts.Shutdown, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.Empty, error) {
		return api.Shutdown(ctx, &wire.Empty{})
	})
	if errors.Is(err, ErrNotSupported) { // the older protocol has no Shutdown
		err = nil
	}
	h.end(ErrClosed)
	h.calls.Wait()
	h.launching <- struct{}{}
	defer func() { <-h.launching }()
	if h.closed {
		return ErrClosed
	}
	h.closed = true
	if h.current != nil {
		err = errors.Join(err, h.current.quit(context.WithoutCancel(ctx), h.o.Dir))
	}
	return errors.Join(err, h.release())
}

// Restart ends the plugin's process and launches another, whose Init creates
// missing resources in the cloud, such as a key. It waits for a running change
// of the group. Instances stay, and Shutdown is not called. Other concurrent
// calls may fail with ErrUnavailable.
func (h *Host) Restart(ctx context.Context) error {
	if err := acquire(ctx, h.changes, "Restart"); err != nil {
		return err
	}
	defer func() { <-h.changes }()
	if err := h.quit(ctx); err != nil {
		return err
	}
	_, err := h.process(ctx)
	return err
}

// quit ends the current process, if there is one.
func (h *Host) quit(ctx context.Context) error {
	if err := acquire(ctx, h.launching, "Restart"); err != nil {
		return err
	}
	defer func() { <-h.launching }()
	if h.closed {
		return ErrClosed
	}
	p := h.current
	if h.current = nil; p == nil {
		return nil
	}
	h.o.Logger.InfoContext(ctx, "restarting the plugin", "pid", p.record.PID)
	return p.quit(context.WithoutCancel(ctx), h.o.Dir)
}

func (h *Host) release() error {
	h.end(ErrClosed)
	if h.logs != nil {
		h.logs.close()
	}
	if err := h.lock.Close(); err != nil {
		return fmt.Errorf("release the group: %w", err)
	}
	return nil
}

// process returns the running plugin, and relaunches it if it has ended.
func (h *Host) process(ctx context.Context) (*process, error) {
	select {
	case h.launching <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the plugin: %w", context.Cause(ctx))
	}
	defer func() { <-h.launching }()
	if h.closed {
		return nil, ErrClosed
	}
	if h.current != nil && !h.current.exited() {
		return h.current, nil
	}
	if h.current != nil {
		if !h.current.ended.Load() {
			h.o.Logger.ErrorContext(ctx, "the plugin ended", "pid", h.current.record.PID, "output_tail", h.logs.tail())
		}
		if err := h.discardProcess(ctx); err != nil {
			return nil, err
		}
	}
	if err := h.launches.pending(time.Now()); err != nil {
		return nil, err
	}
	p, err := h.launch(ctx)
	if ctx.Err() == nil { // otherwise the context is the cause
		err = h.countLaunch(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	h.current = p
	return p, nil
}

// countLaunch counts a launch that failed, or forgets those before. It returns
// the error with the time of the next launch.
func (h *Host) countLaunch(ctx context.Context, err error) error {
	if err == nil && h.launches.Failures == 0 {
		return nil
	}
	next := launches{}
	if err != nil {
		next = h.launches.failed(err, time.Now())
		next.Binary, next.Settings = h.binary, h.settings
		err = &PauseError{At: next.RetryAt, Err: err}
	}
	h.launches = next
	if err := next.write(h.o.Dir); err != nil {
		h.o.Logger.WarnContext(ctx, "failed to record the launches for the next host", "error", err)
	}
	return err
}

// discardProcess ends the current process permanently.
func (h *Host) discardProcess(ctx context.Context) error {
	p := h.current
	h.current = nil
	return p.kill(context.WithoutCancel(ctx), h.o.Dir)
}

// launch starts and initialises the plugin, and lists its instances: some
// plugins restore their state from a listing.
func (h *Host) launch(ctx context.Context) (*process, error) {
	var err error
	if h.binary, err = digestOf(h.o.Plugin); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	p, err := start(h.o, h.logs)
	if err != nil {
		return nil, err
	}
	p.record.Binary, p.record.Settings = h.binary, h.settings
	if err := h.prepare(ctx, p); err != nil {
		return nil, errors.Join(err, p.kill(context.WithoutCancel(ctx), h.o.Dir))
	}
	h.o.Logger.InfoContext(ctx, "launched the plugin", "pid", p.record.PID, "group", p.record.Info.ID, "version", p.record.Info.Version)
	return p, nil
}

func (h *Host) prepare(ctx context.Context, p *process) error {
	if err := writeRecord(h.o.Dir, p.record); err != nil {
		return err
	}
	info, err := initialise(ctx, p.api, h.o)
	if err != nil {
		return h.callError(ctx, "Init", err)
	}
	updateCtx, cancel := context.WithTimeout(ctx, h.o.Timeouts.Update)
	defer cancel()
	if _, err := list(updateCtx, p.api); err != nil {
		return h.callError(updateCtx, "Update", err)
	}
	p.record.Info, p.record.Ready = info, true
	return writeRecord(h.o.Dir, p.record)
}
