package fleeting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/status"

	"github.com/drover-run/drover/fleeting/wire"
)

// pingPatience is how long a plugin that gave no answer has to show that it is alive.
const pingPatience = 5 * time.Second

// Init returns what the plugin said of its group, launching it if it is not there.
func (h *Host) Init(ctx context.Context) (Info, error) {
	p, err := h.process(ctx)
	if err != nil {
		return Info{}, err
	}
	return p.record.Info, nil
}

// Update lists all instances, from the cloud as it is now. A plugin that
// crashes meanwhile is launched and asked once more. It waits for a change that
// runs, but not for one that takes its time: a call that does not return must
// not hide the machines that are there.
func (h *Host) Update(ctx context.Context) ([]Instance, error) {
	if err := take(ctx, h.listing, "Update"); err != nil {
		return nil, err
	}
	defer func() { <-h.listing }()
	beside := time.NewTimer(h.o.Timeouts.Beside)
	defer beside.Stop()
	select {
	case h.changes <- struct{}{}: // and no change begins meanwhile
		defer func() { <-h.changes }()
	case <-beside.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("Update: waiting for another call: %w", context.Cause(ctx))
	}
	ask := func() ([]Instance, error) {
		return call(ctx, h, "Update", h.o.Timeouts.Update, list)
	}
	instances, err := ask()
	if errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
		instances, err = ask()
	}
	return instances, err
}

// Increase asks for n more instances, and returns how many the plugin believes
// it asked the cloud for. They show in Update, later, or never.
func (h *Host) Increase(ctx context.Context, n int) (int, error) {
	if n <= 0 {
		return 0, nil
	}
	r, err := change(ctx, h, "Increase", h.o.Timeouts.Change, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.IncreaseResponse, error) {
		return api.Increase(ctx, &wire.IncreaseRequest{N: uint32(n)})
	})
	return int(r.GetSucceeded()), err
}

// Decrease asks for the end of instances, and returns those that the plugin
// believes it asked the cloud to end.
func (h *Host) Decrease(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	r, err := change(ctx, h, "Decrease", h.o.Timeouts.Change, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.DecreaseResponse, error) {
		return api.Decrease(ctx, &wire.DecreaseRequest{Instances: ids})
	})
	return r.GetSucceeded(), err
}

// ConnectInfo tells how to reach an instance. It may leave traces, such as an
// uploaded key: ask once and keep the answer until it expires. Plugins are
// known to crash over instances that are not there: ask for those that Update
// has just listed as running.
func (h *Host) ConnectInfo(ctx context.Context, id string) (ConnectInfo, error) {
	r, err := call(ctx, h, "ConnectInfo", h.o.Timeouts.ConnectInfo, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.ConnectInfoResponse, error) {
		return api.ConnectInfo(ctx, &wire.ConnectInfoRequest{Instance: id})
	})
	if err != nil {
		return ConnectInfo{}, err
	}
	return connectInfoOf(id, r), nil
}

// Heartbeat returns ErrUnhealthy with the plugin's words where an instance is
// not well. Other errors say nothing of the instance.
func (h *Host) Heartbeat(ctx context.Context, id string) error {
	_, err := call(ctx, h, "Heartbeat", h.o.Timeouts.Heartbeat, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.Empty, error) {
		return api.Heartbeat(ctx, &wire.HeartbeatRequest{Instance: id})
	})
	if said := (*CallError)(nil); errors.As(err, &said) {
		return fmt.Errorf("%w: %w", ErrUnhealthy, err)
	}
	if errors.Is(err, ErrNotSupported) { // an older plugin looks after nothing
		return nil
	}
	return err
}

// Suspend asks for instances to be suspended, and returns those that were asked for.
func (h *Host) Suspend(ctx context.Context, ids []string) ([]string, error) {
	if err := h.needs(ctx, CapabilitySuspendResume); err != nil {
		return nil, err
	}
	r, err := change(ctx, h, "Suspend", h.o.Timeouts.Change, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.SuspendResponse, error) {
		r, err := api.Suspend(ctx, &wire.SuspendRequest{Instances: ids})
		return detailed(r, err), err
	})
	return r.GetSucceeded(), err
}

// Resume asks for suspended instances to run again, and returns those that were asked for.
func (h *Host) Resume(ctx context.Context, ids []string) ([]string, error) {
	if err := h.needs(ctx, CapabilitySuspendResume); err != nil {
		return nil, err
	}
	r, err := change(ctx, h, "Resume", h.o.Timeouts.Change, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.ResumeResponse, error) {
		r, err := api.Resume(ctx, &wire.ResumeRequest{Instances: ids})
		return detailed(r, err), err
	})
	return r.GetSucceeded(), err
}

// needs refuses what the plugin did not say it can do.
func (h *Host) needs(ctx context.Context, capability string) error {
	info, err := h.Init(ctx)
	if err == nil && !info.Can(capability) {
		err = fmt.Errorf("%w: it lacks the capability %s", ErrNotSupported, capability)
	}
	return err
}

// detailed finds the response that travels in the details of a failure.
func detailed[R any](response R, err error) R {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(R); ok {
			return r
		}
	}
	return response
}

// initialise hands the plugin its configuration.
func initialise(ctx context.Context, api wire.InstanceGroupClient, o Options) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Init)
	defer cancel()
	r, err := api.Init(ctx, &wire.InitRequest{Config: o.Config, Settings: &wire.Settings{ConnectorConfig: o.Connector.wire()}})
	if err != nil {
		return Info{}, err //nolint:wrapcheck // judged by the caller
	}
	return Info{
		ID: r.GetId(), MaxSize: r.GetMaxSize(), Version: r.GetVersion(), BuildInfo: r.GetBuildInfo(), Capabilities: r.GetCapabilities(),
	}, nil
}

// list reads the stream of instances to its end: a part of it is no answer.
// States that this host does not know are left out, as hosts do.
func list(ctx context.Context, api wire.InstanceGroupClient) ([]Instance, error) {
	stream, err := api.Update(ctx, &wire.Empty{})
	if err != nil {
		return nil, err //nolint:wrapcheck // judged by the caller
	}
	instances := []Instance{}
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return instances, nil
		case err != nil:
			return nil, err //nolint:wrapcheck // judged by the caller
		}
		if _, known := wire.UpdateResponse_State_name[int32(r.GetState())]; known {
			instances = append(instances, Instance{ID: r.GetInstance(), State: State(r.GetState().String())})
		}
	}
}

// take waits for a turn.
func take(ctx context.Context, turn chan<- struct{}, name string) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: waiting for another call: %w", name, context.Cause(ctx))
	}
}

// change makes a call that must not overlap with others of its kind.
func change[R any](ctx context.Context, h *Host, name string, timeout time.Duration, do func(context.Context, wire.InstanceGroupClient) (R, error)) (R, error) {
	if err := take(ctx, h.changes, name); err != nil {
		var none R
		return none, err
	}
	defer func() { <-h.changes }()
	return call(ctx, h, name, timeout, do)
}

// call makes a call with a deadline, on a plugin that is launched if need be.
// It is made once: what became of one that failed, Update tells.
func call[R any](ctx context.Context, h *Host, name string, timeout time.Duration, do func(context.Context, wire.InstanceGroupClient) (R, error)) (R, error) {
	var none R
	h.calls.Add(1)
	defer h.calls.Done()
	p, err := h.process(ctx)
	if err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stop := context.AfterFunc(h.closing, cancel) //nolint:contextcheck // ends with the host, too
	defer stop()
	r, err := do(ctx, p.api)
	if err != nil {
		err = h.judge(ctx, name, err)
		if errors.Is(err, ErrUnavailable) || (errors.Is(err, ErrTimeout) && !p.answers(pingPatience)) {
			h.giveUp(p, err) //nolint:contextcheck // to be done whatever became of the call
		}
	}
	return r, err
}

// judge says what an error of a call means.
func (h *Host) judge(ctx context.Context, name string, err error) error {
	if h.closing.Err() != nil {
		return fmt.Errorf("%s: %w", name, ErrClosed)
	}
	return judge(ctx, name, err)
}

// giveUp ends a process that is gone or hangs, so that the next call launches
// another; unless another call has done so.
func (h *Host) giveUp(p *process, why error) {
	h.launching <- struct{}{}
	defer func() { <-h.launching }()
	if h.current != p || p.ended.Load() {
		return
	}
	h.o.Logger.Error("giving the plugin up", "error", why, "pid", p.record.PID, "last_words", h.logs.tail())
	if err := h.drop(context.WithoutCancel(h.closing)); err != nil {
		h.o.Logger.Error("ending the plugin", "pid", p.record.PID, "error", err)
	}
}
