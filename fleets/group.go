package fleets

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Group is an instance group; fleeting.Host is one.
type Group interface {
	Init(ctx context.Context) (fleeting.Info, error)
	Update(ctx context.Context) ([]fleeting.Instance, error)
	Increase(ctx context.Context, n int) (int, error)
	Decrease(ctx context.Context, ids []string) ([]string, error)
	ConnectInfo(ctx context.Context, id string) (fleeting.ConnectInfo, error)
	Heartbeat(ctx context.Context, id string) error
	// Restart starts the plugin's process again; instances stay.
	Restart(ctx context.Context) error
	Shutdown(ctx context.Context) error
	Close() error
}

var _ Group = (*fleeting.Host)(nil)

// Opener opens the group of a fleet. Errors are told to operators.
type Opener func(ctx context.Context, f run.Fleet) (Group, error)

// Store is what is needed of the records.
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
	Number int    // of the row of the ledger
	ID     string // the plugin's name of it
}

// Bootstrapper makes machines executors. It returns once the executor has
// registered, or says why it will not. It may be called again for one that it
// has seen to.
type Bootstrapper interface {
	Bootstrap(ctx context.Context, i Instance, c fleeting.ConnectInfo) error
}

// ConnectorOf returns how the instances of a fleet are connected to. The key is
// read from its file.
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
		return out, fmt.Errorf("reading the key of connector_config: %w", err)
	}
	return out, nil
}

// opened is the group of one fleet, opened by need, and again where what it was
// opened with has changed.
type opened struct {
	mu      sync.Mutex
	group   Group
	setting [sha256.Size]byte
}

// get returns the group, opened as the fleet says.
func (o *opened) get(ctx context.Context, open Opener, f run.Fleet) (Group, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, err := json.Marshal([]any{f.Spec.Plugin, f.Spec.PluginConfig, f.Spec.ConnectorConfig})
	if err != nil {
		return nil, fmt.Errorf("encoding the settings of the plugin: %w", err)
	}
	setting := sha256.Sum256(text)
	if o.group != nil && o.setting == setting {
		return o.group, nil
	}
	if o.group != nil {
		err := o.group.Close()
		o.group = nil
		if err != nil {
			return nil, fmt.Errorf("leaving the plugin with its old settings: %w", err)
		}
	}
	if o.group, err = open(ctx, f); err != nil {
		o.group = nil
		return nil, err
	}
	o.setting = setting
	return o.group, nil
}

// close leaves the group to the next one who opens it.
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

// end lets the plugin tidy up after the last instance.
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
