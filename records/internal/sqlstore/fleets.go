package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// fleetKey is the prefix of a fleet's name in the column of run ids of the
// outbox, and among watched ids.
const fleetKey = "fleet:"

const fleetColumns = `name, config, secrets, mode, desired, reason, status, created_at, updated_at, version, policy_state, last_number, last_event`

// fleetRow is a row of the table fleets.
type fleetRow struct {
	run.Fleet
	policyState string
	lastNumber  int
	lastEvent   int64
}

// fleetSecrets is the part of a fleet's configuration that may hold
// credentials.
type fleetSecrets struct {
	Plugin    json.RawMessage    `json:"plugin_config,omitempty"`
	Connector run.FleetConnector `json:"connector_config,omitzero"`
}

func scanFleet(keys *keyring.Ring, row scanner) (*fleetRow, error) {
	var f fleetRow
	var config, secrets, status string
	var desired int
	var created, updated int64
	if err := row.Scan(&f.Name, &config, &secrets, &f.Mode, &desired, &f.Reason, &status, &created, &updated, &f.Version, &f.policyState,
		&f.lastNumber, &f.lastEvent); err != nil {
		return nil, err
	}
	f.CreatedAt, f.UpdatedAt = toTime(created), toTime(updated)
	if desired >= 0 {
		f.Desired = &desired
	}
	if err := errors.Join(unmarshal(config, &f.Spec), unmarshal(status, &f.Status)); err != nil {
		return nil, err
	}
	text, err := keys.Open(fleetLabel(f.Name), secrets)
	if err != nil {
		return nil, run.Errorf(run.CodeInternal, "the configuration of %s cannot be read: %w", fleetLabel(f.Name), err)
	}
	var hidden fleetSecrets
	if err := unmarshal(text, &hidden); err != nil {
		return nil, err
	}
	f.Spec.PluginConfig, f.Spec.ConnectorConfig = hidden.Plugin, hidden.Connector
	return &f, nil
}

// readFleet reads a fleet, also one that was deleted. Errors: not_found.
func readFleet(ctx context.Context, q Querier, keys *keyring.Ring, name, lock string) (*fleetRow, error) {
	f, err := scanFleet(keys, q.QueryRow(ctx, `SELECT `+fleetColumns+` FROM fleets WHERE name = ?`+lock, name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fleetNotFound(name)
	}
	return f, err
}

func fleetNotFound(name string) error {
	return run.Errorf(run.CodeNotFound, "there is no fleet %s", name)
}

// existingFleet reads a fleet that was not deleted.
func existingFleet(ctx context.Context, q Querier, keys *keyring.Ring, name, lock string) (*fleetRow, error) {
	f, err := readFleet(ctx, q, keys, name, lock)
	if err == nil && f.Mode == run.FleetDeleted {
		err = fleetNotFound(name)
	}
	return f, err
}

// ListFleets implements records.Store.
func (s *Store) ListFleets(ctx context.Context) (all []run.Fleet, err error) {
	err = s.read(ctx, "list fleets", func(q Querier) error {
		all = nil
		index := map[string]int{}
		if err := each(ctx, q, func(row scanner) error {
			f, err := scanFleet(s.keys, row)
			if err == nil {
				f.Counts = map[run.InstanceState]int{}
				index[f.Name] = len(all)
				all = append(all, f.Fleet)
			}
			return err
		}, `SELECT `+fleetColumns+` FROM fleets WHERE mode <> ? ORDER BY name`, run.FleetDeleted); err != nil {
			return err
		}
		return each(ctx, q, func(row scanner) error {
			var name string
			var state run.InstanceState
			var n int
			err := row.Scan(&name, &state, &n)
			if i, ok := index[name]; ok {
				all[i].Counts[state] = n
			}
			return err
		}, `SELECT fleet, state, count(*) FROM fleet_instances WHERE state <> 'gone' GROUP BY fleet, state`)
	})
	return all, err
}

// GetFleet implements records.Store.
func (s *Store) GetFleet(ctx context.Context, name string) (out run.Fleet, err error) {
	err = s.read(ctx, "read a fleet", func(q Querier) error {
		f, err := existingFleet(ctx, q, s.keys, name, "")
		if err != nil {
			return err
		}
		out, err = f.view(ctx, q)
		return err
	})
	return out, err
}

// view returns the client view of a fleet.
func (f *fleetRow) view(ctx context.Context, q Querier) (run.Fleet, error) {
	out := f.Fleet
	out.Counts = map[run.InstanceState]int{}
	err := each(ctx, q, func(row scanner) error {
		var state run.InstanceState
		var n int
		err := row.Scan(&state, &n)
		out.Counts[state] = n
		return err
	}, `SELECT state, count(*) FROM fleet_instances WHERE fleet = ? AND state <> 'gone' GROUP BY state`, f.Name)
	return out, err
}

// PutFleet implements records.Store.
func (s *Store) PutFleet(ctx context.Context, name string, spec run.FleetSpec, by string) (out run.Fleet, created bool, err error) {
	err = s.write(ctx, "put a fleet", func(t *tx) error {
		prev, err := readFleet(ctx, t, s.keys, name, t.dialect.ForUpdate)
		fresh := run.CodeOf(err) == run.CodeNotFound
		if err != nil && !fresh {
			return err
		}
		if !fresh && prev.Mode == run.FleetDeleting {
			return run.Errorf(run.CodeConflict, "fleet %s is being deleted; it can be created again once its instances are gone", name)
		}
		if _, err := readPool(ctx, t, spec.Pool, t.dialect.ForUpdate); err != nil { // the lock keeps the pool from being deleted meanwhile
			if run.CodeOf(err) != run.CodeNotFound {
				return err
			}
			return run.InvalidError("the fleet is not valid", []run.Fault{{
				Path: "pool", Code: run.FaultUnknownPool,
				Detail: fmt.Sprintf("there is no pool %s: create it first, so that tasks can wait for its instances", spec.Pool),
			}})
		}
		created = fresh || prev.Mode == run.FleetDeleted
		if err := t.putFleet(ctx, name, spec, prev); err != nil {
			return err
		}
		f, err := readFleet(ctx, t, s.keys, name, "")
		if err != nil {
			return err
		}
		kind, text := "changed", "its configuration was changed"
		if created {
			kind, text = "made", "it was made"
		}
		if err := t.enqueueFleet(ctx, f, run.FleetEvent{Kind: kind, By: by, Text: text}); err != nil {
			return err
		}
		out, err = f.view(ctx, t)
		return err
	})
	return out, created, err
}

func (t *tx) putFleet(ctx context.Context, name string, spec run.FleetSpec, prev *fleetRow) error {
	hidden, err := marshal(fleetSecrets{Plugin: spec.PluginConfig, Connector: spec.ConnectorConfig})
	if err != nil {
		return err
	}
	quota := ""
	if spec.Quota != nil {
		quota = spec.Quota.Name
	}
	uses := spec.MaxUseCount
	spec.PluginConfig, spec.ConnectorConfig = nil, run.FleetConnector{}
	config, err := marshal(spec)
	if err != nil {
		return err
	}
	if prev == nil {
		_, err = t.Exec(ctx, `INSERT INTO fleets (name, config, secrets, mode, pool, quota, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			name, config, t.keys.Seal(fleetLabel(name), hidden), run.FleetActive, spec.Pool, quota, t.now, t.now)
		return err
	}
	mode, created, desired, status := prev.Mode, fromTime(prev.CreatedAt), prev.Desired, prev.Status
	if mode == run.FleetDeleted {
		mode, created, desired, status = run.FleetActive, t.now, nil, run.FleetStatus{}
	}
	seen, err := marshal(status)
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `UPDATE fleets SET config = ?, secrets = ?, mode = ?, desired = ?, pool = ?, quota = ?, status = ?, created_at = ?, updated_at = ?,
		version = version + 1 WHERE name = ?`,
		config, t.keys.Seal(fleetLabel(name), hidden), mode, orNone(desired), spec.Pool, quota, seen, created, t.now, name); err != nil {
		return err
	}
	_, err = t.Exec(ctx, `UPDATE executors SET max_uses = ? WHERE fleet = ? AND NOT removed`, uses, name)
	return err
}

func orNone(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

// ControlFleet implements records.Store.
func (s *Store) ControlFleet(ctx context.Context, name string, w run.FleetControl) (out run.Fleet, err error) {
	err = s.write(ctx, "control a fleet", func(t *tx) error {
		f, err := existingFleet(ctx, t, s.keys, name, t.dialect.ForUpdate)
		if err != nil {
			return err
		}
		if f.Mode == run.FleetDeleting {
			return run.Errorf(run.CodeConflict, "fleet %s is being deleted", name)
		}
		event := run.FleetEvent{Kind: string(w.Action), By: w.By, Text: clip(w.Reason)}
		f.Reason = event.Text
		switch w.Action {
		case run.FleetActionPause:
			f.Mode = run.FleetPaused
		case run.FleetActionResume:
			f.Mode, f.Desired, f.Reason = run.FleetActive, nil, ""
		case run.FleetActionDrain:
			f.Mode = run.FleetDraining
		case run.FleetActionScale:
			f.Mode, f.Desired = run.FleetActive, &w.Instances
			event.Text = fmt.Sprintf("to %d instances", w.Instances)
			if w.Reason != "" {
				event.Text += ": " + clip(w.Reason)
			}
		default:
			return run.Errorf(run.CodeInvalid, "there is no action %q", w.Action)
		}
		if event.Text == "" {
			event.Text = "by hand"
		}
		out, err = t.controlFleet(ctx, f, event)
		return err
	})
	return out, err
}

func (t *tx) controlFleet(ctx context.Context, f *fleetRow, event run.FleetEvent) (run.Fleet, error) {
	if _, err := t.Exec(ctx, `UPDATE fleets SET mode = ?, desired = ?, reason = ?, updated_at = ?, version = version + 1 WHERE name = ?`,
		f.Mode, orNone(f.Desired), f.Reason, t.now, f.Name); err != nil {
		return run.Fleet{}, err
	}
	f.UpdatedAt = toTime(t.now)
	f.Version++
	if err := t.enqueueFleet(ctx, f, event); err != nil {
		return run.Fleet{}, err
	}
	return f.view(ctx, t)
}

// DeleteFleet implements records.Store.
func (s *Store) DeleteFleet(ctx context.Context, name, by string) (out run.Fleet, err error) {
	err = s.write(ctx, "delete a fleet", func(t *tx) error {
		f, err := existingFleet(ctx, t, s.keys, name, t.dialect.ForUpdate)
		if err != nil {
			return err
		}
		if f.Mode == run.FleetDeleting {
			out, err = f.view(ctx, t)
			return err
		}
		f.Mode, f.Desired, f.Reason = run.FleetDeleting, nil, ""
		out, err = t.controlFleet(ctx, f, run.FleetEvent{Kind: "delete", By: by, Text: "its instances are drained and deleted, and then it goes"})
		return err
	})
	return out, err
}

// enqueueFleet records the change of a client as an event, wakes the worker of the
// fleet, and enqueues a start of its workflow.
func (t *tx) enqueueFleet(ctx context.Context, f *fleetRow, event run.FleetEvent) error {
	if err := t.addFleetEvents(ctx, f, []run.FleetEvent{event}); err != nil {
		return err
	}
	key := run.ID(fleetKey + f.Name)
	t.markChanged(key)
	return t.enqueue(ctx, key, records.OutboxFleet, 0)
}

// addFleetEvents appends to the events of a fleet.
func (t *tx) addFleetEvents(ctx context.Context, f *fleetRow, events []run.FleetEvent) error {
	for _, e := range events {
		f.lastEvent++
		at := fromTime(e.At)
		if at == 0 {
			at = t.now
		}
		if _, err := t.Exec(ctx, `INSERT INTO fleet_events (fleet, number, at, kind, instance, name, actor, reason, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			f.Name, f.lastEvent, at, e.Kind, e.Instance, e.Name, e.By, e.Reason, clip(e.Text)); err != nil {
			return err
		}
		const now = 1000 // every so many events
		if f.lastEvent%now == 0 {
			if _, err := t.Exec(ctx, `DELETE FROM fleet_events WHERE fleet = ? AND number <= ?`, f.Name, f.lastEvent-run.KeptFleetEvents); err != nil {
				return err
			}
		}
	}
	_, err := t.Exec(ctx, `UPDATE fleets SET last_event = ? WHERE name = ?`, f.lastEvent, f.Name)
	return err
}

// FleetEvents implements records.Store.
func (s *Store) FleetEvents(ctx context.Context, name string, after int64, n int) (out []run.FleetEvent, err error) {
	err = s.read(ctx, "read the events of a fleet", func(q Querier) error {
		out = nil
		f, err := readFleet(ctx, q, s.keys, name, "")
		if err != nil {
			return err
		}
		if after < 0 {
			after = max(0, f.lastEvent-int64(n))
		}
		return each(ctx, q, func(row scanner) error {
			var e run.FleetEvent
			var at int64
			err := row.Scan(&e.Number, &at, &e.Kind, &e.Instance, &e.Name, &e.By, &e.Reason, &e.Text)
			e.At = toTime(at)
			out = append(out, e)
			return err
		}, `SELECT number, at, kind, instance, name, actor, reason, text FROM fleet_events WHERE fleet = ? AND number > ? ORDER BY number LIMIT ?`,
			name, after, n)
	})
	return out, err
}
