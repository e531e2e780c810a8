package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-run/drover/fleeting/fleetingtest/cloud"
	"github.com/drover-run/drover/fleeting/wire"
)

// exitFault is the exit code of Go plugins that panic on an unknown instance.
const exitFault = 2

// group implements the protocol.
type group struct {
	plugin.NetRPCUnsupportedPlugin
	wire.UnimplementedInstanceGroupServer

	log hclog.Logger

	mu        sync.Mutex
	cloud     *cloud.Cloud
	connector *wire.ConnectorConfig
	calls     map[string]int // of this process, by name
}

// GRPCServer implements plugin.GRPCPlugin.
func (g *group) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error { //nolint:unparam // required by the interface
	wire.RegisterInstanceGroupServer(s, g)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (*group) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the plugin has no client")
}

// begin records a call and returns its fault. The caller does the work of the
// call before the fault; end returns the result.
func (g *group) begin(ctx context.Context, name string, n int, ids ...string) (*cloud.Cloud, cloud.Fault, error) {
	g.mu.Lock()
	c, earlier := g.cloud, g.calls[name]
	g.calls[name]++
	g.mu.Unlock()
	none := cloud.Fault{Do: cloud.All}
	if c == nil {
		return nil, none, errors.New("not initialised")
	}
	if err := c.RecordCall(cloud.Call{Name: name, N: n, Instances: ids, PID: os.Getpid(), At: time.Now()}); err != nil {
		return nil, none, err
	}
	unknown := false
	all, err := c.Instances()
	if err != nil {
		return nil, none, err
	}
	for _, id := range ids {
		unknown = unknown || find(all, id) == nil
	}
	f, ok, err := c.NextFault(name, earlier, unknown)
	if err != nil || !ok {
		return c, none, err
	}
	g.log.Warn("injecting a fault", "call", name, "then", string(f.Outcome), "delay", f.Delay.String())
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		<-timer.C // like a cloud, regardless of the caller's context
	}
	if f.Outcome == cloud.Proceed {
		f.Do = cloud.All
	}
	return c, f, ctx.Err()
}

// end returns the result of a call whose work is done.
func (*group) end(ctx context.Context, f cloud.Fault) error {
	switch f.Outcome {
	case cloud.Hang:
		<-ctx.Done()
		return ctx.Err()
	case cloud.Crash:
		os.Exit(exitFault)
	case cloud.Fail:
		return status.Error(codes.Unknown, "the cloud refused")
	case cloud.Proceed, cloud.FalseSuccess:
	}
	return nil
}

func (g *group) Init(ctx context.Context, r *wire.InitRequest) (*wire.InitResponse, error) {
	var config struct {
		Dir string `json:"dir"`
	}
	if err := json.Unmarshal(r.GetConfig(), &config); err != nil {
		return nil, fmt.Errorf("unmarshaling config: %w", err)
	}
	c, err := cloud.Open(config.Dir)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.cloud, g.connector = c, r.GetSettings().GetConnectorConfig()
	g.mu.Unlock()
	_, f, err := g.begin(ctx, "Init", 0)
	if err == nil {
		err = g.end(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	s, err := c.Settings()
	if err == nil && s.NeedsKey {
		err = c.UploadKey()
	}
	if err != nil {
		return nil, err
	}
	info := &wire.InitResponse{Id: "faulty/" + config.Dir, MaxSize: s.MaxSize, Version: "0.0.0"}
	if s.MaxSize == 0 {
		info.MaxSize = math.MaxUint32
	}
	if s.Suspends && !s.OldProtocol {
		info.Capabilities = []string{"suspend_resume"}
	}
	return info, nil
}

func (g *group) Update(_ *wire.Empty, stream wire.InstanceGroup_UpdateServer) error {
	c, f, err := g.begin(stream.Context(), "Update", 0)
	if err != nil {
		return err
	}
	s, err := c.Settings()
	if err != nil {
		return err
	}
	all, err := c.Instances()
	if err != nil {
		return err
	}
	for at, i := range all {
		if at == f.Do {
			break
		}
		if err := stream.Send(&wire.UpdateResponse{Instance: i.ID, State: stateOf(i, s)}); err != nil {
			return err
		}
	}
	return g.end(stream.Context(), f)
}

func (g *group) Increase(ctx context.Context, r *wire.IncreaseRequest) (*wire.IncreaseResponse, error) {
	c, f, err := g.begin(ctx, "Increase", int(r.GetN()))
	if err == nil {
		err = requireKey(c)
	}
	if err != nil {
		return nil, err
	}
	for made := range int(r.GetN()) {
		if made == f.Do {
			break
		}
		ok, err := c.Create("i-" + strings.ToLower(rand.Text()[:10]))
		if err != nil {
			return nil, err
		}
		if !ok { // an error response carries no count of the created instances
			return nil, status.Error(codes.Unknown, "the quota is exceeded")
		}
	}
	return &wire.IncreaseResponse{Succeeded: r.GetN()}, g.end(ctx, f)
}

// requireKey refuses to create instances without the key that Init uploads.
func requireKey(c *cloud.Cloud) error {
	s, err := c.Settings()
	if err != nil || !s.NeedsKey {
		return err
	}
	found, err := c.HasKey()
	if err == nil && !found {
		err = status.Error(codes.Unknown, "the SSH key is not found")
	}
	return err
}

func (g *group) Decrease(ctx context.Context, r *wire.DecreaseRequest) (*wire.DecreaseResponse, error) {
	c, f, err := g.begin(ctx, "Decrease", 0, r.GetInstances()...)
	if err != nil {
		return nil, err
	}
	var done []string
	for at, id := range r.GetInstances() {
		if at == f.Do {
			break
		}
		if _, err := c.Delete(id); err != nil {
			return nil, err
		}
		done = append(done, id)
	}
	if f.Outcome == cloud.FalseSuccess {
		done = r.GetInstances()
	}
	return &wire.DecreaseResponse{Succeeded: done}, g.end(ctx, f)
}

func (g *group) ConnectInfo(ctx context.Context, r *wire.ConnectInfoRequest) (*wire.ConnectInfoResponse, error) {
	c, f, err := g.begin(ctx, "ConnectInfo", 0, r.GetInstance())
	if err == nil {
		err = g.end(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	s, i, err := findInstance(c, r.GetInstance())
	if err != nil {
		return nil, err
	}
	if stateOf(*i, s) != wire.UpdateResponse_running {
		return nil, fmt.Errorf("%s does not run", i.ID)
	}
	if s.Address == "" {
		s.Address = "127.0.0.1"
	}
	return &wire.ConnectInfoResponse{Connector: g.connector, InternalAddr: s.Address, ExternalAddr: s.Address}, nil
}

func (g *group) Heartbeat(ctx context.Context, r *wire.HeartbeatRequest) (*wire.Empty, error) {
	c, f, err := g.begin(ctx, "Heartbeat", 0, r.GetInstance())
	if err == nil {
		err = g.end(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	s, i, err := findInstance(c, r.GetInstance())
	switch {
	case s.OldProtocol:
		return nil, status.Error(codes.Unimplemented, "unknown method Heartbeat")
	case err != nil:
		return nil, err
	case i.Unhealthy || stateOf(*i, s) != wire.UpdateResponse_running:
		return nil, fmt.Errorf("instance is unhealthy")
	}
	return &wire.Empty{}, nil
}

func (g *group) Suspend(ctx context.Context, r *wire.SuspendRequest) (*wire.SuspendResponse, error) {
	done, err := g.suspend(ctx, "Suspend", r.GetInstances(), true)
	return &wire.SuspendResponse{Succeeded: done}, err
}

func (g *group) Resume(ctx context.Context, r *wire.ResumeRequest) (*wire.ResumeResponse, error) {
	done, err := g.suspend(ctx, "Resume", r.GetInstances(), false)
	return &wire.ResumeResponse{Succeeded: done}, err
}

func (g *group) suspend(ctx context.Context, name string, ids []string, suspended bool) ([]string, error) {
	c, f, err := g.begin(ctx, name, 0, ids...)
	if err != nil {
		return nil, err
	}
	s, err := c.Settings()
	if err != nil {
		return nil, err
	}
	if s.OldProtocol || !s.Suspends {
		return nil, status.Error(codes.Unimplemented, "unknown method "+name)
	}
	var done []string
	for at, id := range ids {
		if at == f.Do {
			break
		}
		if found, err := c.Suspend(id, suspended); err != nil {
			return nil, err
		} else if found {
			done = append(done, id)
		}
	}
	return done, g.end(ctx, f)
}

func (g *group) Shutdown(ctx context.Context, _ *wire.Empty) (*wire.Empty, error) {
	c, f, err := g.begin(ctx, "Shutdown", 0)
	if err != nil {
		return nil, err
	}
	s, err := c.Settings()
	if err == nil && s.OldProtocol {
		err = status.Error(codes.Unimplemented, "unknown method Shutdown")
	}
	if err != nil {
		return nil, err
	}
	return &wire.Empty{}, g.end(ctx, f)
}

func findInstance(c *cloud.Cloud, id string) (cloud.Settings, *cloud.Instance, error) {
	s, err := c.Settings()
	if err != nil {
		return s, nil, err
	}
	all, err := c.Instances()
	if err != nil {
		return s, nil, err
	}
	i := find(all, id)
	if i == nil {
		return s, nil, fmt.Errorf("there is no instance %s", id)
	}
	return s, i, nil
}

func find(all []cloud.Instance, id string) *cloud.Instance {
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

func stateOf(i cloud.Instance, s cloud.Settings) wire.UpdateResponse_State {
	switch {
	case !i.Deleted.IsZero():
		return wire.UpdateResponse_deleting
	case time.Since(i.Created) < s.CreateTime:
		return wire.UpdateResponse_creating
	case i.Suspended:
		return wire.UpdateResponse_suspended
	}
	return wire.UpdateResponse_running
}
