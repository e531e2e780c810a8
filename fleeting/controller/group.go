package controller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Group is an instance group; fleeting.Host implements it.
type Group interface {
	Init(ctx context.Context) (fleeting.Info, error)
	Update(ctx context.Context) ([]fleeting.Instance, error)
	Increase(ctx context.Context, n int) (int, error)
	Decrease(ctx context.Context, ids []string) ([]string, error)
	ConnectInfo(ctx context.Context, id string) (fleeting.ConnectInfo, error)
	Heartbeat(ctx context.Context, id string) error
	// Restart restarts the plugin's process; instances stay.
	Restart(ctx context.Context) error
	Shutdown(ctx context.Context) error
	Close() error
}

var _ Group = (*fleeting.Host)(nil)

// Opener opens the group of a fleet. Its errors are shown to operators.
type Opener func(ctx context.Context, f run.Fleet) (Group, error)

// Store is the part of the records that this package needs.
type Store interface {
	records.Ledger
	FleetInstances(ctx context.Context, name string, gone bool) ([]run.FleetInstance, error)
	DrainExecutor(ctx context.Context, id string, drain bool, reason string) (run.Executor, error)
	RemoveExecutor(ctx context.Context, id string, why run.Removal) (run.Executor, error)
}

// Instance is a machine that is to become an executor.
type Instance struct {
	Fleet  string
	Spec   run.FleetSpec
	Number int    // of the ledger row
	ID     string // assigned by the plugin
}

// Bootstrapper turns machines into executors. Bootstrap returns once the
// executor has registered, or an error that states why it will not. It may be
// called again for a machine that it has already bootstrapped.
type Bootstrapper interface {
	Bootstrap(ctx context.Context, i Instance, c fleeting.ConnectInfo) error
}

// ConnectorOf returns the connection settings for the instances of a fleet. It
// reads the key from its file.
func ConnectorOf(c run.FleetConnector) (fleeting.Connector, error) {
	out := fleeting.Connector{
		OS: c.OS, Arch: c.Arch, Protocol: c.Protocol, ProtocolPort: c.ProtocolPort, Username: c.Username, Password: c.Password,
		UseStaticCredentials: c.UseStaticCredentials, Keepalive: c.Keepalive.Std(), Timeout: c.Timeout.Std(),
	}
	if c.KeyPath == "" {
		return out, nil
	}
	var err error
	if out.Key, err = os.ReadFile(c.KeyPath); err != nil {
		return out, fmt.Errorf("read the key of connector_config: %w", err)
	}
	return out, nil
}

// opened is the group of one fleet. It opens the group on first use, and again
// after its settings have changed.
type opened struct {
	mu      sync.Mutex
	group   Group
	setting [sha256.Size]byte
}

// get returns the group, opened with the settings of the fleet.
func (o *opened) get(ctx context.Context, open Opener, f run.Fleet) (Group, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, err := json.Marshal([]any{f.Spec.Plugin, f.Spec.PluginConfig, f.Spec.ConnectorConfig})
	if err != nil {
		return nil, fmt.Errorf("encode the settings of the plugin: %w", err)
	}
	setting := sha256.Sum256(text)
	if o.group != nil && o.setting == setting {
		return o.group, nil
	}
	if o.group != nil {
		err := o.group.Close()
		o.group = nil
		if err != nil {
			return nil, fmt.Errorf("close the plugin with its old settings: %w", err)
		}
	}
	if o.group, err = open(ctx, f); err != nil {
		o.group = nil
		return nil, err
	}
	o.setting = setting
	return o.group, nil
}

// close detaches from the group; another process may open it.
func (o *opened) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.group == nil {
		return nil
	}
	err := o.group.Close()
	o.group = nil
	return err
}

// end shuts the plugin down, so that it cleans up after the last instance.
func (o *opened) end(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.group == nil {
		return nil
	}
	err := o.group.Shutdown(ctx)
	o.group = nil
	if errors.Is(err, fleeting.ErrClosed) {
		return nil
	}
	return err
}

// withoutCredentials hides the credentials of a fleet's configuration in a message,
// in which the plugin may repeat them.
func withoutCredentials(s run.FleetSpec, text string) string {
	return mask.NewSet(s.Credentials()).String(text)
}
