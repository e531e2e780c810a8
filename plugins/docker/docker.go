// Package docker is a fleeting plugin whose instances are containers of one
// Docker daemon. All state is in the daemon: labels hold the group and the
// instance, and a container is renamed before it is removed. The plugin may be
// killed at any time, and another process continues with the same instances.
package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/hashicorp/go-hclog"
	"gitlab.com/gitlab-org/fleeting/fleeting/plugin"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"

	"github.com/drover-run/drover/plugins/internal/instance"
)

// InstanceGroup is a group of containers. Its exported fields are the plugin's
// configuration.
type InstanceGroup struct {
	Name        string            `json:"name"`
	Host        string            `json:"host"` // "": DOCKER_HOST, or the default socket
	MaxSize     int               `json:"max_size"`
	StopTimeout instance.Duration `json:"stop_timeout"`
	Container

	Version plugin.VersionInfo `json:"-"`

	log      hclog.Logger
	settings provider.Settings
	cli      *client.Client

	mu       sync.Mutex
	removing map[string]bool // ids whose removal runs in this process
	removals sync.WaitGroup
}

var _ provider.InstanceGroup = (*InstanceGroup)(nil)

const (
	defaultStopTimeout = 10 * time.Second
	// A container that was not started within this time never will be: the
	// plugin was killed before it could start it.
	startTimeout = 2 * time.Minute
	// How long a changing call to the daemon may take, in addition to the
	// container's stop timeout.
	daemonTimeout = time.Minute
	// removalSuffix is the suffix of the names of containers to be removed.
	removalSuffix = ".deleting"
)

// Labels of the containers.
const (
	groupLabel    = "drover.fleeting.group"
	instanceLabel = "drover.fleeting.instance"
)

// Init implements provider.InstanceGroup.
func (g *InstanceGroup) Init(ctx context.Context, log hclog.Logger, settings provider.Settings) (provider.ProviderInfo, error) {
	var none provider.ProviderInfo
	if err := instance.CheckGroup(g.Name); err != nil {
		return none, err
	}
	if err := g.check(); err != nil {
		return none, err
	}
	options := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if g.Host != "" {
		options = append(options, client.WithHost(g.Host))
	}
	cli, err := client.NewClientWithOpts(options...)
	if err != nil {
		return none, fmt.Errorf("make a Docker client: %w", err)
	}
	if _, err := cli.Ping(ctx); err != nil {
		return none, fmt.Errorf("query the Docker daemon: %w", errors.Join(err, cli.Close()))
	}
	if g.cli != nil {
		_ = g.cli.Close()
	}
	g.cli, g.log, g.settings = cli, log, settings
	if g.removing == nil {
		g.removing = map[string]bool{}
	}
	size := g.MaxSize
	if size <= 0 {
		size = math.MaxInt
	}
	return provider.ProviderInfo{
		ID: "docker/" + g.Name, MaxSize: size, Version: g.Version.String(), BuildInfo: g.Version.BuildInfo(),
		Capabilities: []provider.Capability{provider.CapabilitySuspendResume},
	}, nil
}

// Update implements provider.InstanceGroup. It continues the removals that
// another process began.
func (g *InstanceGroup) Update(ctx context.Context, fn func(string, provider.State)) error {
	all, err := g.list(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		id := c.Labels[instanceLabel]
		state := stateOf(c)
		switch {
		case markedForRemoval(c):
			g.remove(id, c.ID)
			state = provider.StateDeleting
		case c.State == container.StateCreated && time.Since(time.Unix(c.Created, 0)) > startTimeout:
			g.log.Warn("removing a container that was never started", "id", id)
			g.remove(id, c.ID)
			state = provider.StateDeleting
		}
		fn(id, state)
	}
	return nil
}

// Increase implements provider.InstanceGroup.
func (g *InstanceGroup) Increase(ctx context.Context, n int) (int, error) {
	free := math.MaxInt
	if g.MaxSize > 0 {
		all, err := g.list(ctx)
		if err != nil {
			return 0, err
		}
		free = max(g.MaxSize-len(all), 0)
	}
	if err := g.fetch(ctx, g.cli); err != nil {
		return 0, err
	}
	for made := range n {
		if made >= free {
			return made, fmt.Errorf("the group already has %d instances", g.MaxSize)
		}
		if err := g.create(ctx); err != nil {
			return made, err
		}
	}
	return n, nil
}

func (g *InstanceGroup) create(ctx context.Context) error {
	vars := instance.Vars{ID: instance.NewID(g.Name), Group: g.Name}
	config, host, err := g.configuration(vars)
	if err != nil {
		return err
	}
	c, err := g.cli.ContainerCreate(ctx, config, host, nil, nil, vars.ID)
	if err != nil {
		return fmt.Errorf("create a container: %w", err)
	}
	for _, warning := range c.Warnings {
		g.log.Warn("the daemon warned about a container", "id", vars.ID, "warning", warning)
	}
	if err := g.cli.ContainerStart(ctx, c.ID, container.StartOptions{}); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), daemonTimeout)
		defer cancel()
		removed := g.cli.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if errdefs.IsNotFound(removed) {
			removed = nil
		}
		return fmt.Errorf("start a container: %w", errors.Join(err, removed))
	}
	g.log.Info("started an instance", "id", vars.ID, "container", c.ID)
	return nil
}

// Decrease implements provider.InstanceGroup. Instances that do not exist count
// as removed.
func (g *InstanceGroup) Decrease(ctx context.Context, ids []string) ([]string, error) {
	var done []string
	var faults error
	for _, id := range ids {
		if err := g.markForRemoval(ctx, id); err != nil {
			faults = errors.Join(faults, fmt.Errorf("remove %s: %w", id, err))
			continue
		}
		done = append(done, id)
	}
	return done, faults
}

// markForRemoval marks a container for removal, and begins to remove it.
func (g *InstanceGroup) markForRemoval(ctx context.Context, id string) error {
	c, found, err := g.find(ctx, id)
	if err != nil || !found {
		return err
	}
	if !markedForRemoval(c) {
		err := g.cli.ContainerRename(ctx, c.ID, id+removalSuffix)
		if errdefs.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("rename the container: %w", err)
		}
	}
	g.remove(id, c.ID)
	return nil
}

// remove stops and removes a container in the background, unless this process
// already does. The next Update repeats a failed removal.
func (g *InstanceGroup) remove(id, containerID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removing[id] {
		return
	}
	g.removing[id] = true
	cli, timeout := g.cli, g.StopTimeout.Or(defaultStopTimeout)
	g.removals.Go(func() {
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			delete(g.removing, id)
		}()
		ctx, cancel := context.WithTimeout(context.Background(), timeout+daemonTimeout)
		defer cancel()
		seconds := int(math.Ceil(timeout.Seconds()))
		if err := cli.ContainerStop(ctx, containerID, container.StopOptions{Timeout: &seconds}); err != nil && !errdefs.IsNotFound(err) {
			g.log.Warn("failed to stop a container", "id", id, "error", err)
		}
		err := cli.ContainerRemove(ctx, containerID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !errdefs.IsNotFound(err) && !strings.Contains(err.Error(), "already in progress") {
			g.log.Warn("failed to remove a container", "id", id, "error", err)
			return
		}
		g.log.Info("removed an instance", "id", id)
	})
}

// ConnectInfo implements provider.InstanceGroup.
func (g *InstanceGroup) ConnectInfo(ctx context.Context, id string) (provider.ConnectInfo, error) {
	info := provider.ConnectInfo{ConnectorConfig: g.settings.ConnectorConfig, ID: id}
	c, err := g.running(ctx, id)
	if err != nil {
		return info, err
	}
	info.InternalAddr = addressOf(c)
	info.ExternalAddr = info.InternalAddr
	if info.Username == "" {
		info.Username = "root"
	}
	return info, nil
}

// Heartbeat implements provider.InstanceGroup.
func (g *InstanceGroup) Heartbeat(ctx context.Context, id string) error {
	c, err := g.running(ctx, id)
	if err == nil && c.State.Health != nil && c.State.Health.Status == container.Unhealthy {
		err = fmt.Errorf("%w: its health check fails", provider.ErrInstanceUnhealthy)
	}
	return err
}

// Suspend implements provider.InstanceGroup.
func (g *InstanceGroup) Suspend(ctx context.Context, ids []string) ([]string, error) {
	return g.each(ctx, ids, container.StatePaused, g.cli.ContainerPause)
}

// Resume implements provider.InstanceGroup.
func (g *InstanceGroup) Resume(ctx context.Context, ids []string) ([]string, error) {
	return g.each(ctx, ids, container.StateRunning, g.cli.ContainerUnpause)
}

// each applies a call to containers. A container that is already in the target
// state is no error.
func (g *InstanceGroup) each(ctx context.Context, ids []string, into container.ContainerState, do func(context.Context, string) error) ([]string, error) {
	var done []string
	var faults error
	for _, id := range ids {
		c, found, err := g.find(ctx, id)
		switch {
		case err != nil:
		case !found:
			err = errors.New("no such instance")
		case c.State == into:
		default:
			err = do(ctx, c.ID)
		}
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("%s: %w", id, err))
			continue
		}
		done = append(done, id)
	}
	return done, faults
}

// Shutdown implements provider.InstanceGroup. Instances stay; Shutdown waits
// for removals in progress.
func (g *InstanceGroup) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); g.removals.Wait() }()
	select {
	case <-done:
	case <-ctx.Done(): // the next process continues the removals
	}
	return nil
}

func (g *InstanceGroup) list(ctx context.Context, more ...filters.KeyValuePair) ([]container.Summary, error) {
	args := filters.NewArgs(append(more, filters.Arg("label", groupLabel+"="+g.Name))...)
	all, err := g.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: args})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	return all, nil
}

func (g *InstanceGroup) find(ctx context.Context, id string) (container.Summary, bool, error) {
	all, err := g.list(ctx, filters.Arg("label", instanceLabel+"="+id))
	if err != nil || len(all) == 0 {
		return container.Summary{}, false, err
	}
	return all[0], true, nil
}

func (g *InstanceGroup) running(ctx context.Context, id string) (container.InspectResponse, error) {
	var none container.InspectResponse
	found, ok, err := g.find(ctx, id)
	if err != nil {
		return none, err
	}
	if !ok {
		return none, fmt.Errorf("%w: no instance %s", provider.ErrInstanceUnhealthy, id)
	}
	c, err := g.cli.ContainerInspect(ctx, found.ID)
	if err != nil {
		return none, fmt.Errorf("inspect a container: %w", err)
	}
	if !c.State.Running || c.State.Paused || markedForRemoval(found) {
		return none, fmt.Errorf("%w: %s is %s", provider.ErrInstanceUnhealthy, id, stateOf(found))
	}
	return c, nil
}

func markedForRemoval(c container.Summary) bool {
	for _, name := range c.Names {
		if strings.HasSuffix(name, removalSuffix) {
			return true
		}
	}
	return false
}

// stateOf maps the daemon's states. A container that has exited counts as
// deleted, because the daemon removes it.
func stateOf(c container.Summary) provider.State {
	if markedForRemoval(c) {
		return provider.StateDeleting
	}
	switch c.State {
	case container.StateCreated, container.StateRestarting:
		return provider.StateCreating
	case container.StateRunning:
		return provider.StateRunning
	case container.StatePaused:
		return provider.StateSuspended
	case container.StateRemoving:
		return provider.StateDeleting
	default: // exited, dead
		return provider.StateDeleted
	}
}
