package rows

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// FleetColumns are the columns that ScanFleet reads.
const FleetColumns = `name, config, secrets, mode, desired, reason, status, created_at, updated_at, version, policy_state, last_number, last_event,
	revision, rollout_since, rollout_paused, allowed_groups`

// Fleet is a row of the table fleets.
type Fleet struct {
	run.Fleet
	PolicyState string
	LastNumber  int
	LastEvent   int64
}

// FleetSecrets is the part of a fleet's configuration that may hold
// credentials.
type FleetSecrets struct {
	Plugin    json.RawMessage    `json:"plugin_config,omitempty"`
	Connector run.FleetConnector `json:"connector_config,omitzero"`
}

// ScanFleet reads a row with FleetColumns.
func ScanFleet(keys *keyring.Ring, row sqldb.Scanner) (*Fleet, error) {
	var f Fleet
	var config, secrets, status, groups string
	var desired int
	var created, updated, since int64
	if err := row.Scan(&f.Name, &config, &secrets, &f.Mode, &desired, &f.Reason, &status, &created, &updated, &f.Version, &f.PolicyState,
		&f.LastNumber, &f.LastEvent, &f.Revision, &since, &f.RolloutPaused, &groups); err != nil {
		return nil, err
	}
	f.CreatedAt, f.UpdatedAt, f.RolloutSince = sqldb.ToTime(created), sqldb.ToTime(updated), sqldb.ToTime(since)
	if desired >= 0 {
		f.Desired = &desired
	}
	if err := errors.Join(sqldb.Unmarshal(config, &f.Spec), sqldb.Unmarshal(status, &f.Status), sqldb.Unmarshal(groups, &f.Spec.AllowedGroups)); err != nil {
		return nil, err
	}
	text, err := keys.Open(sqldb.FleetLabel(f.Name), secrets)
	if err != nil {
		return nil, run.Errorf(run.CodeInternal, "the configuration of %s cannot be read: %w", sqldb.FleetLabel(f.Name), err)
	}
	var hidden FleetSecrets
	if err := sqldb.Unmarshal(text, &hidden); err != nil {
		return nil, err
	}
	f.Spec.PluginConfig, f.Spec.ConnectorConfig = hidden.Plugin, hidden.Connector
	return &f, nil
}

// ReadFleet reads a fleet, also one that was deleted. Errors: not_found.
func ReadFleet(ctx context.Context, q sqldb.Querier, keys *keyring.Ring, name, lock string) (*Fleet, error) {
	f, err := ScanFleet(keys, q.QueryRow(ctx, `SELECT `+FleetColumns+` FROM fleets WHERE name = ?`+lock, name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fleetNotFound(name)
	}
	return f, err
}

func fleetNotFound(name string) error {
	return run.Errorf(run.CodeNotFound, "there is no fleet %s", name)
}

// ExistingFleet reads a fleet that was not deleted.
func ExistingFleet(ctx context.Context, q sqldb.Querier, keys *keyring.Ring, name, lock string) (*Fleet, error) {
	f, err := ReadFleet(ctx, q, keys, name, lock)
	if err == nil && f.Mode == run.FleetDeleted {
		err = fleetNotFound(name)
	}
	return f, err
}

// View returns the client view of a fleet.
func (f *Fleet) View(ctx context.Context, q sqldb.Querier) (run.Fleet, error) {
	out := f.Fleet
	out.Counts = map[run.InstanceState]int{}
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var state run.InstanceState
		var n int
		err := row.Scan(&state, &n)
		out.Counts[state] = n
		return err
	}, `SELECT state, count(*) FROM fleet_instances WHERE fleet = ? AND state <> 'gone' GROUP BY state`, f.Name)
	return out, err
}
