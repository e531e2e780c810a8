// Package static is a fleeting plugin whose instances are hosts of a list, given
// out and taken back. Who has which host stands in files that groups share, so
// that no two ever have the same one, and that the plugin may be killed at any
// time. Every time that a host is given out it is another instance.
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
	StateDir      string            `json:"state_dir"` // shared by all groups that have hosts in common
	Hosts         []Host            `json:"hosts"`
	ReturnCommand string            `json:"return_command"` // runs on a host that comes back
	ReturnTimeout instance.Duration `json:"return_timeout"`

	Version plugin.VersionInfo `json:"-"`

	log      hclog.Logger
	settings provider.Settings
	leases   leases
	hosts    map[string]Host

	mu        sync.Mutex
	returning map[string]time.Time // when hosts are tried to be cleaned up again; zero: this is being done
	returns   sync.WaitGroup
}

var _ provider.InstanceGroup = (*InstanceGroup)(nil)

const (
	defaultReturnTimeout = time.Minute
	returnPause          = 30 * time.Second // between two tries to clean up
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
	if g.returning == nil {
		g.returning = map[string]time.Time{}
	}
	for _, h := range g.Hosts {
		g.hosts[h.Address] = h
		if _, err := h.connect(settings.ConnectorConfig); err != nil {
			return none, err
		}
	}
	release, err := g.leases.hold()
	if err != nil {
		return none, err
	}
	release()
	return provider.ProviderInfo{ID: "static/" + g.Name, MaxSize: len(g.Hosts), Version: g.Version.String(), BuildInfo: g.Version.BuildInfo()}, nil
}

// Update implements provider.InstanceGroup. Hosts that come back, and could not
// be cleaned up, are tried again.
func (g *InstanceGroup) Update(_ context.Context, fn func(string, provider.State)) error {
	mine, err := g.mine()
	if err != nil {
		return err
	}
	for _, l := range mine {
		if l.Returning {
			fn(l.ID, provider.StateDeleting)
			g.cleanUp(l)
			continue
		}
		fn(l.ID, provider.StateRunning)
	}
	return nil
}

// Increase implements provider.InstanceGroup. Hosts that do not answer are
// passed over; of the others, those come first that were given back long ago.
func (g *InstanceGroup) Increase(ctx context.Context, n int) (int, error) {
	var faults error
	for given := range n {
		ok, err := g.give(ctx, &faults)
		if err != nil {
			return given, err
		}
		if !ok {
			return given, errors.Join(fmt.Errorf("no host is left of %d", len(g.Hosts)), faults)
		}
	}
	return n, nil
}

// give gives out one host that answers. It is the group's while it is asked,
// lest another group asks it, too.
func (g *InstanceGroup) give(ctx context.Context, faults *error) (bool, error) {
	tried := map[string]bool{}
	for {
		before, taken, ok, err := g.take(tried)
		if err != nil || !ok {
			return false, err
		}
		fault := g.hosts[taken.Address].reach(ctx, g.settings.ConnectorConfig)
		if fault == nil {
			g.log.Info("gave a host out", "id", taken.ID, "address", taken.Address)
			return true, nil
		}
		tried[taken.Address] = true
		*faults = errors.Join(*faults, fmt.Errorf("%s: %w", taken.Address, fault))
		if err := g.change(taken, before); err != nil {
			return false, err
		}
	}
}

// take makes the next free host the group's.
func (g *InstanceGroup) take(tried map[string]bool) (before, taken lease, ok bool, err error) {
	release, err := g.leases.hold()
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
	before = slices.MinFunc(free, func(a, b lease) int { return cmp.Compare(a.Returned.UnixNano(), b.Returned.UnixNano()) })
	taken = lease{Address: before.Address, Group: g.Name, ID: idOf(g.Name, before.Address), Since: time.Now(), Returned: before.Returned}
	return before, taken, true, g.leases.write(taken)
}

// idOf tells the host, for people to see, and is new every time.
func idOf(group, address string) string {
	name := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, address)
	return strings.Replace(instance.NewID(group), group+"-", group+"-"+strings.Trim(name, "-.")+"-", 1)
}

// change replaces a lease that must still be the same.
func (g *InstanceGroup) change(from, to lease) error {
	release, err := g.leases.hold()
	if err != nil {
		return err
	}
	defer release()
	all, err := g.leases.all()
	if err != nil {
		return err
	}
	if is := all[from.Address]; is.ID != from.ID || is.Group != from.Group {
		return nil // it went back meanwhile
	}
	return g.leases.write(to)
}

// Decrease implements provider.InstanceGroup. Hosts that the group has not need
// not be given back.
func (g *InstanceGroup) Decrease(_ context.Context, ids []string) ([]string, error) {
	mine, err := g.mine()
	if err != nil {
		return nil, err
	}
	var done []string
	var faults error
	for _, id := range ids {
		at := slices.IndexFunc(mine, func(l lease) bool { return l.ID == id })
		if at >= 0 {
			err := g.giveBack(mine[at])
			if err != nil {
				faults = errors.Join(faults, fmt.Errorf("giving %s back: %w", id, err))
				continue
			}
		}
		done = append(done, id)
	}
	return done, faults
}

func (g *InstanceGroup) giveBack(l lease) error {
	if g.ReturnCommand == "" {
		return g.change(l, lease{Address: l.Address, Returned: time.Now()})
	}
	marked := l
	marked.Returning = true
	if err := g.change(l, marked); err != nil {
		return err
	}
	g.cleanUp(marked)
	return nil
}

// cleanUp runs the command on a host that comes back, in the background. A host
// that it fails on is given to nobody.
func (g *InstanceGroup) cleanUp(l lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, known := g.returning[l.ID]; known && (at.IsZero() || time.Now().Before(at)) {
		return
	}
	g.returning[l.ID] = time.Time{}
	g.returns.Go(func() {
		err := g.runOn(l)
		if err == nil {
			err = g.change(l, lease{Address: l.Address, Returned: time.Now()})
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if err != nil {
			g.log.Error("a host that came back could not be cleaned up", "id", l.ID, "address", l.Address, "error", err)
			g.returning[l.ID] = time.Now().Add(returnPause)
			return
		}
		g.log.Info("a host came back", "id", l.ID, "address", l.Address)
		delete(g.returning, l.ID)
	})
}

func (g *InstanceGroup) runOn(l lease) error {
	h, ok := g.hosts[l.Address]
	if !ok || g.ReturnCommand == "" { // the configuration has changed: it is nobody's any more
		return nil
	}
	info, err := h.connect(g.settings.ConnectorConfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.ReturnTimeout.Or(defaultReturnTimeout))
	defer cancel()
	info.Timeout = g.ReturnTimeout.Or(defaultReturnTimeout)
	var said bytes.Buffer
	err = connector.Run(ctx, info, connector.ConnectorOptions{
		RunOptions: connector.RunOptions{Command: g.ReturnCommand, Stdout: io.Discard, Stderr: &said},
	})
	if err != nil {
		return fmt.Errorf("running the command: %w: %s", err, said.String())
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
	return h.reach(ctx, g.settings.ConnectorConfig)
}

// Suspend implements provider.InstanceGroup.
func (g *InstanceGroup) Suspend(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

// Resume implements provider.InstanceGroup.
func (g *InstanceGroup) Resume(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

// Shutdown implements provider.InstanceGroup. The group keeps its hosts; those
// that come back are waited for.
func (g *InstanceGroup) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); g.returns.Wait() }()
	select {
	case <-done:
	case <-ctx.Done(): // the next process goes on with them
	}
	return nil
}

// mine lists the hosts that the group has.
func (g *InstanceGroup) mine() ([]lease, error) {
	release, err := g.leases.hold()
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := g.leases.all()
	if err != nil {
		return nil, err
	}
	var mine []lease
	for _, l := range all {
		if l.Group == g.Name {
			mine = append(mine, l)
		}
	}
	slices.SortFunc(mine, func(a, b lease) int { return cmp.Compare(a.ID, b.ID) })
	return mine, nil
}

// hostOf returns a host that the group has and may use.
func (g *InstanceGroup) hostOf(id string) (Host, error) {
	mine, err := g.mine()
	if err != nil {
		return Host{}, err
	}
	for _, l := range mine {
		if l.ID != id {
			continue
		}
		if l.Returning {
			return Host{}, fmt.Errorf("%w: %s is being given back", provider.ErrInstanceUnhealthy, id)
		}
		if h, ok := g.hosts[l.Address]; ok {
			return h, nil
		}
		return Host{}, fmt.Errorf("%w: %s is on the list no more", provider.ErrInstanceUnhealthy, l.Address)
	}
	return Host{}, fmt.Errorf("%w: there is no instance %s", provider.ErrInstanceUnhealthy, id)
}
