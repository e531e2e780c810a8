package fleeting

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-run/drover/fleeting/wire"
	"github.com/drover-run/drover/internal/dirlock"
)

// Probe is one process of a plugin with direct calls: no retries, no relaunch
// and no serialization. Use a Probe to test plugins, and a Host to drive
// groups. A call returns a CallError if the plugin returns an error,
// ErrUnavailable if its process has exited, ErrTimeout, or ErrNotSupported if
// the plugin does not serve the call.
type Probe struct {
	o    Options
	p    *process
	logs *logs
	lock *flock.Flock
}

// Launch starts a plugin in the directory of the options, which the probe then
// owns. Launch does not initialise the plugin.
func Launch(o Options) (*Probe, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the group's directory: %w", err)
	}
	// The guard ends a plugin that has no owner.
	lock, err := dirlock.Take(o.Dir)
	if errors.Is(err, dirlock.ErrHeld) {
		err = fmt.Errorf("%w: %w", ErrOwned, err)
	}
	if err != nil {
		return nil, fmt.Errorf("launch a plugin: %w", err)
	}
	l, err := openLogs(o.Dir, o.Logger)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	p, err := start(o, l)
	if err != nil {
		l.close()
		return nil, errors.Join(err, lock.Close())
	}
	return &Probe{o: o, p: p, logs: l, lock: lock}, nil
}

// Kill ends the plugin immediately, with SIGKILL.
func (p *Probe) Kill(ctx context.Context) error {
	defer p.logs.close()
	return errors.Join(p.p.kill(ctx, p.o.Dir), p.lock.Close())
}

// Alive reports whether the process answers.
func (p *Probe) Alive() bool { return !p.p.exited() && p.p.answers(pingTimeout) }

// LogTail returns the last lines that the plugin logged.
func (p *Probe) LogTail() string { return p.logs.tail() }

// Calls lists the calls that the plugin serves, and the calls of the protocol
// that it lacks. Both are empty if the plugin does not support reflection.
func (p *Probe) Calls(ctx context.Context) (serves, lacks []string, err error) {
	var r Report
	err = servedCalls(ctx, p.p.conn.Conn, &r)
	return r.Calls, r.Missing, err
}

// Init initialises the plugin; it may be called several times.
func (p *Probe) Init(ctx context.Context) (Info, error) {
	info, err := initialise(ctx, p.p.api, p.o)
	return info, p.callError(ctx, "Init", err)
}

// Update lists all instances.
func (p *Probe) Update(ctx context.Context) ([]Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Update)
	defer cancel()
	instances, err := list(ctx, p.p.api)
	return instances, p.callError(ctx, "Update", err)
}

// Increase requests n more instances.
func (p *Probe) Increase(ctx context.Context, n int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Change)
	defer cancel()
	r, err := p.p.api.Increase(ctx, &wire.IncreaseRequest{N: uint32(n)})
	return int(r.GetSucceeded()), p.callError(ctx, "Increase", err)
}

// Decrease requests the deletion of instances.
func (p *Probe) Decrease(ctx context.Context, ids []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Change)
	defer cancel()
	r, err := p.p.api.Decrease(ctx, &wire.DecreaseRequest{Instances: ids})
	return r.GetSucceeded(), p.callError(ctx, "Decrease", err)
}

// ConnectInfo returns how to connect to an instance.
func (p *Probe) ConnectInfo(ctx context.Context, id string) (ConnectInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.ConnectInfo)
	defer cancel()
	r, err := p.p.api.ConnectInfo(ctx, &wire.ConnectInfoRequest{Instance: id})
	if err != nil {
		return ConnectInfo{}, p.callError(ctx, "ConnectInfo", err)
	}
	return connectInfoOf(id, r), nil
}

// Heartbeat checks the health of an instance.
func (p *Probe) Heartbeat(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Heartbeat)
	defer cancel()
	_, err := p.p.api.Heartbeat(ctx, &wire.HeartbeatRequest{Instance: id})
	return p.callError(ctx, "Heartbeat", err)
}

// Suspend requests the suspension of instances.
func (p *Probe) Suspend(ctx context.Context, ids []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Change)
	defer cancel()
	r, err := p.p.api.Suspend(ctx, &wire.SuspendRequest{Instances: ids})
	return responseInDetails(r, err).GetSucceeded(), p.callError(ctx, "Suspend", err)
}

// Resume requests that suspended instances run again.
func (p *Probe) Resume(ctx context.Context, ids []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Change)
	defer cancel()
	r, err := p.p.api.Resume(ctx, &wire.ResumeRequest{Instances: ids})
	return responseInDetails(r, err).GetSucceeded(), p.callError(ctx, "Resume", err)
}

// Shutdown makes the plugin remove its own resources. Its process continues to
// run.
func (p *Probe) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Shutdown)
	defer cancel()
	_, err := p.p.api.Shutdown(ctx, &wire.Empty{})
	return p.callError(ctx, "Shutdown", err)
}

func (p *Probe) callError(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	return classifyError(ctx, name, err)
}

// The plugin enforces the deadline too, and its clock may be ahead.
const clockTolerance = 500 * time.Millisecond

// isOver reports whether a call has reached its deadline.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < clockTolerance
}

// classifyError maps an error of a call to an error of this package.
func classifyError(ctx context.Context, name string, err error) error {
	s := status.Convert(err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	case errors.Is(ctx.Err(), context.DeadlineExceeded), s.Code() == codes.DeadlineExceeded && isOver(ctx):
		return fmt.Errorf("%s: %w", name, ErrTimeout)
	}
	switch s.Code() { //nolint:exhaustive // the plugin returned all other codes itself
	case codes.Unavailable:
		return fmt.Errorf("%s: %w: %s", name, ErrUnavailable, s.Message())
	case codes.Unimplemented:
		return fmt.Errorf("%s: %w", name, ErrNotSupported)
	}
	return &CallError{Call: name, Code: s.Code(), Message: s.Message()}
}
