// Fleeting-plugin-command lists, creates and deletes instances with commands.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/hashicorp/go-hclog"
	"gitlab.com/gitlab-org/fleeting/fleeting/plugin"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// group is one instance group; its JSON is the plugin's configuration.
type group struct {
	Name   string   `json:"name"`
	List   []string `json:"list"`   // prints a line for each instance: ID STATE ADDRESS
	Create []string `json:"create"` // creates the instance that INSTANCE names
	Delete []string `json:"delete"` // deletes that instance, if it exists

	settings provider.Settings
}

func (g *group) Init(_ context.Context, _ hclog.Logger, settings provider.Settings) (provider.ProviderInfo, error) {
	if g.Name == "" || len(g.List) == 0 || len(g.Create) == 0 || len(g.Delete) == 0 {
		return provider.ProviderInfo{}, fmt.Errorf("name, list, create and delete must be set")
	}
	g.settings = settings
	return provider.ProviderInfo{ID: "command/" + g.Name, MaxSize: 1000, Version: "1.0.0"}, nil
}

func (g *group) Update(ctx context.Context, fn func(string, provider.State)) error {
	return g.list(ctx, func(id, state, _ string) { fn(id, provider.State(state)) })
}

func (g *group) Increase(ctx context.Context, n int) (int, error) {
	for made := range n {
		if _, err := run(ctx, g.Create, g.Name+"-"+strings.ToLower(rand.Text()[:8])); err != nil {
			return made, err
		}
	}
	return n, nil
}

func (g *group) Decrease(ctx context.Context, ids []string) (gone []string, err error) {
	for _, id := range ids {
		if _, err := run(ctx, g.Delete, id); err != nil {
			return gone, err
		}
		gone = append(gone, id)
	}
	return gone, nil
}

func (g *group) ConnectInfo(ctx context.Context, id string) (provider.ConnectInfo, error) {
	info := provider.ConnectInfo{ConnectorConfig: g.settings.ConnectorConfig, ID: id}
	err := g.list(ctx, func(found, state, address string) {
		if found == id && state == string(provider.StateRunning) {
			info.InternalAddr, info.ExternalAddr = address, address
		}
	})
	if err == nil && info.InternalAddr == "" {
		err = fmt.Errorf("%w: instance %s is not running", provider.ErrInstanceUnhealthy, id)
	}
	return info, err
}

func (g *group) Heartbeat(ctx context.Context, id string) error {
	_, err := g.ConnectInfo(ctx, id)
	return err
}

func (g *group) list(ctx context.Context, fn func(id, state, address string)) error {
	out, err := run(ctx, g.List, "")
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 {
			fn(f[0], f[1], f[2])
		}
	}
	return err
}

func unsupported() ([]string, error) { return nil, provider.ErrSuspendResumeNotSupported }

func (g *group) Suspend(context.Context, []string) ([]string, error) { return unsupported() }
func (g *group) Resume(context.Context, []string) ([]string, error)  { return unsupported() }
func (g *group) Shutdown(context.Context) error                      { return nil }

func run(ctx context.Context, command []string, id string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "INSTANCE="+id), os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

func main() { plugin.Main(&group{}, plugin.VersionInfo{Name: "fleeting-plugin-command"}) }
