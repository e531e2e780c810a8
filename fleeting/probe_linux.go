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

// Probe is one process of a plugin that is called as it is: nothing is asked
// twice, launched again or kept apart. It is for those who examine plugins;
// a Host is for those who use them. Calls fail with a CallError where the plugin
// answers so, with ErrUnavailable where its process is gone, with ErrTimeout,
// and with ErrNotSupported where the plugin does not serve the call.
type Probe struct {
	o    Options
	p    *process
	logs *logs
	lock *flock.Flock
}

// Launch starts a plugin in a directory that the options name, of which the
// probe becomes the owner. The plugin is not initialised.
func Launch(o Options) (*Probe, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the group's directory: %w", err)
	}
	// The guard ends what nobody drives.
	lock, err := dirlock.Take(o.Dir)
	if errors.Is(err, dirlock.ErrHeld) {
		err = fmt.Errorf("%w: %w", ErrOwned, err)
	}
	if err != nil {
		return nil, fmt.Errorf("launching a plugin: %w", err)
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

// Kill ends the plugin at once, by SIGKILL.
func (p *Probe) Kill(ctx context.Context) error {
	defer p.logs.close()
	return errors.Join(p.p.kill(ctx, p.o.Dir), p.lock.Close())
}

// Alive reports whether the process answers.
func (p *Probe) Alive() bool { return !p.p.exited() && p.p.answers(pingPatience) }

// LastWords are the last lines that the plugin logged.
func (p *Probe) LastWords() string { return p.logs.tail() }

// Calls lists the calls that the plugin serves, and those of the protocol that
// it lacks; none if it does not tell.
func (p *Probe) Calls(ctx context.Context) (serves, lacks []string, err error) {
	var r Report
	err = callsOf(ctx, p.p.conn.Conn, &r)
	return r.Calls, r.Missing, err
}

// Init initialises the plugin, as often as it is called.
func (p *Probe) Init(ctx context.Context) (Info, error) {
	info, err := initialise(ctx, p.p.api, p.o)
	return info, p.judge(ctx, "Init", err)
}

// Update lists all instances.
func (p *Probe) Update(ctx context.Context) ([]Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Update)
	defer cancel()
	instances, err := list(ctx, p.p.api)
	return instances, p.judge(ctx, "Update", err)
}

// Increase asks for n more instances.
func (p *Probe) Increase(ctx context.Context, n int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Change)
	defer cancel()
	r, err := p.p.api.Increase(ctx, &wire.IncreaseRequest{N: uint32(n)})
	return int(r.GetSucceeded()), p.judge(ctx, "Increase", err)
}

// Decrease asks for the end of instances.
func (p *Probe) Decrease(ctx context.Context, ids []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Change)
	defer cancel()
	r, err := p.p.api.Decrease(ctx, &wire.DecreaseRequest{Instances: ids})
	return r.GetSucceeded(), p.judge(ctx, "Decrease", err)
}

// ConnectInfo tells how to reach an instance.
func (p *Probe) ConnectInfo(ctx context.Context, id string) (ConnectInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.ConnectInfo)
	defer cancel()
	r, err := p.p.api.ConnectInfo(ctx, &wire.ConnectInfoRequest{Instance: id})
	if err != nil {
		return ConnectInfo{}, p.judge(ctx, "ConnectInfo", err)
	}
	return connectInfoOf(id, r), nil
}

// Heartbeat asks for the health of an instance.
func (p *Probe) Heartbeat(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Heartbeat)
	defer cancel()
	_, err := p.p.api.Heartbeat(ctx, &wire.HeartbeatRequest{Instance: id})
	return p.judge(ctx, "Heartbeat", err)
}

// Suspend asks for instances to be suspended.
func (p *Probe) Suspend(ctx context.Context, ids []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Change)
	defer cancel()
	r, err := p.p.api.Suspend(ctx, &wire.SuspendRequest{Instances: ids})
	return detailed(r, err).GetSucceeded(), p.judge(ctx, "Suspend", err)
}

// Resume asks for suspended instances to run again.
func (p *Probe) Resume(ctx context.Context, ids []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Change)
	defer cancel()
	r, err := p.p.api.Resume(ctx, &wire.ResumeRequest{Instances: ids})
	return detailed(r, err).GetSucceeded(), p.judge(ctx, "Resume", err)
}

// Shutdown lets the plugin tidy up after itself. It goes on running.
func (p *Probe) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Shutdown)
	defer cancel()
	_, err := p.p.api.Shutdown(ctx, &wire.Empty{})
	return p.judge(ctx, "Shutdown", err)
}

func (p *Probe) judge(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	return judge(ctx, name, err)
}

// The plugin keeps the deadline, too, with a clock that may go first.
const clockPatience = 500 * time.Millisecond

// isOver reports whether a call is at its deadline.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < clockPatience
}

// judge says what an error of a call means.
func judge(ctx context.Context, name string, err error) error {
	s := status.Convert(err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	case errors.Is(ctx.Err(), context.DeadlineExceeded), s.Code() == codes.DeadlineExceeded && isOver(ctx):
		return fmt.Errorf("%s: %w", name, ErrTimeout)
	}
	switch s.Code() { //nolint:exhaustive // all others are the plugin's own
	case codes.Unavailable:
		return fmt.Errorf("%s: %w: %s", name, ErrUnavailable, s.Message())
	case codes.Unimplemented:
		return fmt.Errorf("%s: %w", name, ErrNotSupported)
	}
	return &CallError{Call: name, Code: s.Code(), Message: s.Message()}
}
