// Package static is a fleeting plugin that leases the hosts of a list as
// instances. Groups share the files that record the leases, so that two groups
// never have the same host, and the plugin may be killed at any time. Each
// lease of a host is a new instance.
package static

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"gitlab.com/gitlab-org/fleeting/fleeting/connector"
	"gitlab.com/gitlab-org/fleeting/fleeting/plugin"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"

	"github.com/drover-run/drover/plugins/internal/instance"
)

// InstanceGroup is a group of hosts. Its exported fields are the plugin's
// configuration.
type InstanceGroup struct {
	Name          string            `json:"name"`
	StateDir      string            `json:"state_dir"` // shared by all groups with common hosts
	Hosts         []Host            `json:"hosts"`
	ReturnCommand string            `json:"return_command"` // runs on a host when it is released
	ReturnTimeout instance.Duration `json:"return_timeout"`

	Version plugin.VersionInfo `json:"-"`

	log      hclog.Logger
	settings provider.Settings
	leases   leases
	hosts    map[string]Host

	mu       sync.Mutex
	cleanups map[string]time.Time // time of the next cleanup of a host; zero: the cleanup runs
	returns  sync.WaitGroup
}

var _ provider.InstanceGroup = (*InstanceGroup)(nil)

const (
	defaultReturnTimeout = time.Minute
	cleanupRetryDelay    = 30 * time.Second // between two attempts to clean up
)

// Init implements provider.InstanceGroup.
func (g *InstanceGroup) Init(_ context.Context, log hclog.Logger, settings provider.Settings) (provider.ProviderInfo, error) {
	var none provider.ProviderInfo
	if err := instance.CheckGroup(g.Name); err != nil {
		return none, err
	}
	if !filepath.IsAbs(g.StateDir) {
		return none, fmt.Errorf("state_dir: %q must be an absolute path", g.StateDir)
	}
	if err := checkHosts(g.Hosts); err != nil {
		return none, err
	}
	g.log, g.settings, g.leases, g.hosts = log, settings, leases{dir: g.StateDir}, map[string]Host{}
	if g.cleanups == nil {
		g.cleanups = map[string]time.Time{}
	}
	for _, h := range g.Hosts {
		g.hosts[h.Address] = h
		if _, err := h.connect(settings.ConnectorConfig); err != nil {
			return none, err
		}
	}
	release, err := g.leases.acquire()
	if err != nil {
		return none, err
	}
	release()
	return provider.ProviderInfo{ID: "static/" + g.Name, MaxSize: len(g.Hosts), Version: g.Version.String(), BuildInfo: g.Version.BuildInfo()}, nil
}

// Update implements provider.InstanceGroup. It repeats failed cleanups of
// released hosts.
func (g *InstanceGroup) Update(_ context.Context, fn func(string, provider.State)) error {
	own, err := g.ownLeases()
	if err != nil {
		return err
	}
	for _, l := range own {
		if l.Cleaning {
			fn(l.ID, provider.StateDeleting)
			g.cleanUp(l)
			continue
		}
		fn(l.ID, provider.StateRunning)
	}
	return nil
}

// Increase implements provider.InstanceGroup. It skips hosts that do not
// answer, and prefers hosts that were released longest ago.
func (g *InstanceGroup) Increase(ctx context.Context, n int) (int, error) {
	var faults error
	for leased := range n {
		ok, err := g.leaseHost(ctx, &faults)
		if err != nil {
			return leased, err
		}
		if !ok {
			return leased, errors.Join(fmt.Errorf("none of the %d hosts is free", len(g.Hosts)), faults)
		}
	}
	return n, nil
}

// leaseHost leases one host that answers. The group owns the host during the check,
// so that no other group checks it at the same time.
func (g *InstanceGroup) leaseHost(ctx context.Context, faults *error) (bool, error) {
	tried := map[string]bool{}
	for {
		before, taken, ok, err := g.leaseFree(tried)
		if err != nil || !ok {
			return false, err
		}
		fault := g.hosts[taken.Address].checkReachable(ctx, g.settings.ConnectorConfig)
		if fault == nil {
			g.log.Info("leased a host", "id", taken.ID, "address", taken.Address)
			return true, nil
		}
		tried[taken.Address] = true
		*faults = errors.Join(*faults, fmt.Errorf("%s: %w", taken.Address, fault))
		if err := g.change(taken, before); err != nil {
			return false, err
		}
	}
}

// leaseFree leases the next free host to the group.
func (g *InstanceGroup) leaseFree(tried map[string]bool) (before, taken lease, ok bool, err error) {
	release, err := g.leases.acquire()
	if err != nil {
		return before, taken, false, err
	}
	defer release()
	all, err := g.leases.all()
	if err != nil {
		return before, taken, false, err
	}
	var free []lease
	for _, h := range g.Hosts {
		l := all[h.Address]
		l.Address = h.Address
		if l.Group == "" && !tried[h.Address] {
			free = append(free, l)
		}
	}
	if len(free) == 0 {
		return before, taken, false, nil
	}
	before = slices.MinFunc(free, func(a, b lease) int { return cmp.Compare(a.ReleasedAt.UnixNano(), b.ReleasedAt.UnixNano()) })
	taken = lease{Address: before.Address, Group: g.Name, ID: idOf(g.Name, before.Address), Since: time.Now(), ReleasedAt: before.ReleasedAt}
	return before, taken, true, g.leases.write(taken)
}

// idOf returns a new unique id that contains the host's address for readers.
func idOf(group, address string) string {
	name := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, address)
	return strings.Replace(instance.NewID(group), group+"-", group+"-"+strings.Trim(name, "-.")+"-", 1)
}

// change replaces a lease if it is unchanged.
func (g *InstanceGroup) change(from, to lease) error {
	release, err := g.leases.acquire()
	if err != nil {
		return err
	}
	defer release()
	all, err := g.leases.all()
	if err != nil {
		return err
	}
	if is := all[from.Address]; is.ID != from.ID || is.Group != from.Group {
		return nil // it was released meanwhile
	}
	return g.leases.write(to)
}

// Decrease implements provider.InstanceGroup. Hosts that the group does not own
// count as released.
func (g *InstanceGroup) Decrease(_ context.Context, ids []string) ([]string, error) {
	own, err := g.ownLeases()
	if err != nil {
		return nil, err
	}
	var done []string
	var faults error
	for _, id := range ids {
		at := slices.IndexFunc(own, func(l lease) bool { return l.ID == id })
		if at >= 0 {
			err := g.release(own[at])
			if err != nil {
				faults = errors.Join(faults, fmt.Errorf("release %s: %w", id, err))
				continue
			}
		}
		done = append(done, id)
	}
	return done, faults
}

func (g *InstanceGroup) release(l lease) error {
	if g.ReturnCommand == "" {
		return g.change(l, lease{Address: l.Address, ReleasedAt: time.Now()})
	}
	marked := l
	marked.Cleaning = true
	if err := g.change(l, marked); err != nil {
		return err
	}
	g.cleanUp(marked)
	return nil
}

// cleanUp runs the return command on a released host, in the background. A host
// stays unavailable while its cleanup fails.
func (g *InstanceGroup) cleanUp(l lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, known := g.cleanups[l.ID]; known && (at.IsZero() || time.Now().Before(at)) {
		return
	}
	g.cleanups[l.ID] = time.Time{}
	g.returns.Go(func() {
		err := g.runOn(l)
		if err == nil {
			err = g.change(l, lease{Address: l.Address, ReleasedAt: time.Now()})
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if err != nil {
			g.log.Error("failed to clean up a released host", "id", l.ID, "address", l.Address, "error", err)
			g.cleanups[l.ID] = time.Now().Add(cleanupRetryDelay)
			return
		}
		g.log.Info("released a host", "id", l.ID, "address", l.Address)
		delete(g.cleanups, l.ID)
	})
}

func (g *InstanceGroup) runOn(l lease) error {
	h, ok := g.hosts[l.Address]
	if !ok || g.ReturnCommand == "" { // the configuration no longer has the host, or a command
		return nil
	}
	info, err := h.connect(g.settings.ConnectorConfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.ReturnTimeout.Or(defaultReturnTimeout))
	defer cancel()
	info.Timeout = g.ReturnTimeout.Or(defaultReturnTimeout)
	var stderr bytes.Buffer
	err = connector.Run(ctx, info, connector.ConnectorOptions{
		RunOptions: connector.RunOptions{Command: g.ReturnCommand, Stdout: io.Discard, Stderr: &stderr},
	})
	if err != nil {
		return fmt.Errorf("run the command: %w: %s", err, stderr.String())
	}
	return nil
}

// ConnectInfo implements provider.InstanceGroup.
func (g *InstanceGroup) ConnectInfo(_ context.Context, id string) (provider.ConnectInfo, error) {
	h, err := g.hostOf(id)
	if err != nil {
		return provider.ConnectInfo{}, err
	}
	info, err := h.connect(g.settings.ConnectorConfig)
	info.ID = id
	return info, err
}

// Heartbeat implements provider.InstanceGroup.
func (g *InstanceGroup) Heartbeat(ctx context.Context, id string) error {
	h, err := g.hostOf(id)
	if err != nil {
		return err
	}
	return h.checkReachable(ctx, g.settings.ConnectorConfig)
}

// Suspend implements provider.InstanceGroup.
func (g *InstanceGroup) Suspend(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

// Resume implements provider.InstanceGroup.
func (g *InstanceGroup) Resume(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

// Shutdown implements provider.InstanceGroup. The group keeps its hosts;
// Shutdown waits for cleanups in progress.
func (g *InstanceGroup) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); g.returns.Wait() }()
	select {
	case <-done:
	case <-ctx.Done(): // the next process continues the cleanups
	}
	return nil
}

// ownLeases lists the hosts of the group.
func (g *InstanceGroup) ownLeases() ([]lease, error) {
	release, err := g.leases.acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := g.leases.all()
	if err != nil {
		return nil, err
	}
	var own []lease
	for _, l := range all {
		if l.Group == g.Name {
			own = append(own, l)
		}
	}
	slices.SortFunc(own, func(a, b lease) int { return cmp.Compare(a.ID, b.ID) })
	return own, nil
}

// hostOf returns a host that the group owns and may use.
func (g *InstanceGroup) hostOf(id string) (Host, error) {
	own, err := g.ownLeases()
	if err != nil {
		return Host{}, err
	}
	for _, l := range own {
		if l.ID != id {
			continue
		}
		if l.Cleaning {
			return Host{}, fmt.Errorf("%w: %s is being released", provider.ErrInstanceUnhealthy, id)
		}
		if h, ok := g.hosts[l.Address]; ok {
			return h, nil
		}
		return Host{}, fmt.Errorf("%w: %s is no longer on the list", provider.ErrInstanceUnhealthy, l.Address)
	}
	return Host{}, fmt.Errorf("%w: no instance %s", provider.ErrInstanceUnhealthy, id)
}
