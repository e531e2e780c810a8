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

// pingTimeout is the timeout of the health check of a plugin that did not
// answer a call.
const pingTimeout = 5 * time.Second

// Init returns the plugin's description of its group. It launches the plugin if
// it does not run.
func (h *Host) Init(ctx context.Context) (Info, error) {
	p, err := h.process(ctx)
	if err != nil {
		return Info{}, err
	}
	return p.record.Info, nil
}

// Update lists all instances in their current state in the cloud. If the plugin
// crashes during the call, Update launches it and calls it once more. It waits
// for a running change, but only for a limited time after the change began: a
// call that hangs must not block listings.
func (h *Host) Update(ctx context.Context) ([]Instance, error) {
	if err := acquire(ctx, h.listing, "Update"); err != nil {
		return nil, err
	}
	defer func() { <-h.listing }()
	listingWait := time.NewTimer(h.listingWait())
	defer listingWait.Stop()
	select {
	case h.changes <- struct{}{}: // no change begins during the listing
		defer func() { <-h.changes }()
	case <-listingWait.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("Update: wait for another call: %w", context.Cause(ctx))
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

// listingWait returns how long a listing waits for the running change. All
// listings during one change wait for its first part only.
func (h *Host) listingWait() time.Duration {
	wait := h.o.Timeouts.ListingWait
	if began := h.changeBegan.Load(); began != nil {
		wait -= time.Since(*began)
	}
	return max(0, wait)
}

// Increase requests n more instances, and returns how many of them the plugin
// believes it requested from the cloud. They appear in Update later, or never.
func (h *Host) Increase(ctx context.Context, n int) (int, error) {
	if n <= 0 {
		return 0, nil
	}
	r, err := change(ctx, h, "Increase", h.o.Timeouts.Change, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.IncreaseResponse, error) {
		return api.Increase(ctx, &wire.IncreaseRequest{N: uint32(n)})
	})
	return int(r.GetSucceeded()), err
}

// Decrease requests the deletion of instances, and returns those whose deletion
// the plugin believes it requested from the cloud.
func (h *Host) Decrease(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	r, err := change(ctx, h, "Decrease", h.o.Timeouts.Change, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.DecreaseResponse, error) {
		return api.Decrease(ctx, &wire.DecreaseRequest{Instances: ids})
	})
	return r.GetSucceeded(), err
}

// ConnectInfo returns how to connect to an instance. The call may have side
// effects, such as an uploaded key: call it once and keep the result until it
// expires. Some plugins crash if the instance does not exist: call it only for
// instances that Update has just listed as running.
func (h *Host) ConnectInfo(ctx context.Context, id string) (ConnectInfo, error) {
	r, err := call(ctx, h, "ConnectInfo", h.o.Timeouts.ConnectInfo, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.ConnectInfoResponse, error) {
		return api.ConnectInfo(ctx, &wire.ConnectInfoRequest{Instance: id})
	})
	if err != nil {
		return ConnectInfo{}, err
	}
	return connectInfoOf(id, r), nil
}

// Heartbeat returns ErrUnhealthy with the plugin's message if an instance is
// unhealthy. Other errors reveal nothing about the instance.
func (h *Host) Heartbeat(ctx context.Context, id string) error {
	_, err := call(ctx, h, "Heartbeat", h.o.Timeouts.Heartbeat, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.Empty, error) {
		return api.Heartbeat(ctx, &wire.HeartbeatRequest{Instance: id})
	})
	if said := (*CallError)(nil); errors.As(err, &said) {
		return fmt.Errorf("%w: %w", ErrUnhealthy, err)
	}
	if errors.Is(err, ErrNotSupported) { // plugins of the older protocol check nothing
		return nil
	}
	return err
}

// Suspend requests the suspension of instances, and returns the accepted ids.
func (h *Host) Suspend(ctx context.Context, ids []string) ([]string, error) {
	if err := h.needs(ctx, CapabilitySuspendResume); err != nil {
		return nil, err
	}
	r, err := change(ctx, h, "Suspend", h.o.Timeouts.Change, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.SuspendResponse, error) {
		r, err := api.Suspend(ctx, &wire.SuspendRequest{Instances: ids})
		return responseInDetails(r, err), err
	})
	return r.GetSucceeded(), err
}

// Resume requests that suspended instances run again, and returns the accepted
// ids.
func (h *Host) Resume(ctx context.Context, ids []string) ([]string, error) {
	if err := h.needs(ctx, CapabilitySuspendResume); err != nil {
		return nil, err
	}
	r, err := change(ctx, h, "Resume", h.o.Timeouts.Change, func(ctx context.Context, api wire.InstanceGroupClient) (*wire.ResumeResponse, error) {
		r, err := api.Resume(ctx, &wire.ResumeRequest{Instances: ids})
		return responseInDetails(r, err), err
	})
	return r.GetSucceeded(), err
}

// needs returns an error if the plugin did not announce a capability.
func (h *Host) needs(ctx context.Context, capability string) error {
	info, err := h.Init(ctx)
	if err == nil && !info.Can(capability) {
		err = fmt.Errorf("%w: the capability %s is missing", ErrNotSupported, capability)
	}
	return err
}

// responseInDetails returns the response that is encoded in the details of an error.
func responseInDetails[R any](response R, err error) R {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(R); ok {
			return r
		}
	}
	return response
}

// initialise sends the configuration to the plugin.
func initialise(ctx context.Context, api wire.InstanceGroupClient, o Options) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Init)
	defer cancel()
	r, err := api.Init(ctx, &wire.InitRequest{Config: o.Config, Settings: &wire.Settings{ConnectorConfig: o.Connector.wire()}})
	if err != nil {
		return Info{}, err
	}
	return Info{
		ID: r.GetId(), MaxSize: r.GetMaxSize(), Version: r.GetVersion(), BuildInfo: r.GetBuildInfo(), Capabilities: r.GetCapabilities(),
	}, nil
}

// list reads the stream of instances to its end; a partial stream is an error.
// It omits instances in states that this host does not know, like GitLab's
// host.
func list(ctx context.Context, api wire.InstanceGroupClient) ([]Instance, error) {
	stream, err := api.Update(ctx, &wire.Empty{})
	if err != nil {
		return nil, err
	}
	instances := []Instance{}
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return instances, nil
		case err != nil:
			return nil, err
		}
		if _, known := wire.UpdateResponse_State_name[int32(r.GetState())]; known {
			instances = append(instances, Instance{ID: r.GetInstance(), State: State(r.GetState().String())})
		}
	}
}

// acquire acquires a semaphore.
func acquire(ctx context.Context, semaphore chan<- struct{}, name string) error {
	select {
	case semaphore <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: wait for another call: %w", name, context.Cause(ctx))
	}
}

// change makes a call that changes the group. Such calls run one at a time.
func change[R any](ctx context.Context, h *Host, name string, timeout time.Duration, do func(context.Context, wire.InstanceGroupClient) (R, error)) (R, error) {
	if err := acquire(ctx, h.changes, name); err != nil {
		var none R
		return none, err
	}
	defer func() { <-h.changes }()
	began := time.Now()
	h.changeBegan.Store(&began)
	defer h.changeBegan.Store(nil)
	return call(ctx, h, name, timeout, do)
}

// call makes one call with a deadline, and launches the plugin first if
// necessary. It does not retry: Update shows the result of a call that failed.
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
		err = h.callError(ctx, name, err)
		if errors.Is(err, ErrUnavailable) || (errors.Is(err, ErrTimeout) && !p.answers(pingTimeout)) {
			h.endProcess(p, err) //nolint:contextcheck // also after the context has ended
		}
	}
	return r, err
}

// callError maps an error of a call to an error of this package.
func (h *Host) callError(ctx context.Context, name string, err error) error {
	if h.closing.Err() != nil {
		return fmt.Errorf("%s: %w", name, ErrClosed)
	}
	return classifyError(ctx, name, err)
}

// endProcess ends a process that has exited or hangs, so that the next call
// launches another. It does nothing if another call has done so.
func (h *Host) endProcess(p *process, why error) {
	h.launching <- struct{}{}
	defer func() { <-h.launching }()
	if h.current != p || p.ended.Load() {
		return
	}
	h.o.Logger.Error("ending a plugin that does not answer", "error", why, "pid", p.record.PID, "output_tail", h.logs.tail())
	if err := h.discardProcess(context.WithoutCancel(h.closing)); err != nil {
		h.o.Logger.Error("failed to end the plugin", "pid", p.record.PID, "error", err)
	}
}
