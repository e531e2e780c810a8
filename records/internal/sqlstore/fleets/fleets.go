package fleets

import (
	"context"
	"fmt"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/executors"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// ListFleets implements records.Store.
func (s *Store) ListFleets(ctx context.Context) (all []run.Fleet, err error) {
	err = s.db.Read(ctx, "list fleets", func(q sqldb.Querier) error {
		all = nil
		index := map[string]int{}
		if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			f, err := rows.ScanFleet(s.db.Keys, row)
			if err == nil {
				f.Counts = map[run.InstanceState]int{}
				index[f.Name] = len(all)
				all = append(all, f.Fleet)
			}
			return err
		}, `SELECT `+rows.FleetColumns+` FROM fleets WHERE mode <> ? ORDER BY name`, run.FleetDeleted); err != nil {
			return err
		}
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
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
	err = s.db.Read(ctx, "read a fleet", func(q sqldb.Querier) error {
		f, err := rows.ExistingFleet(ctx, q, s.db.Keys, name, "")
		if err != nil {
			return err
		}
		out, err = f.View(ctx, q)
		return err
	})
	return out, err
}

// PutFleet implements records.Store.
func (s *Store) PutFleet(ctx context.Context, name string, spec run.FleetSpec, by string) (out run.Fleet, created bool, err error) {
	err = s.db.Write(ctx, "put a fleet", func(t *sqldb.Tx) error {
		prev, err := rows.ReadFleet(ctx, t, s.db.Keys, name, t.Dialect.ForUpdate)
		fresh := run.CodeOf(err) == run.CodeNotFound
		if err != nil && !fresh {
			return err
		}
		if !fresh && prev.Mode == run.FleetDeleting {
			return run.Errorf(run.CodeConflict, "fleet %s is being deleted; it can be created again once its instances are gone", name)
		}
		if _, err := executors.ReadPool(ctx, t, spec.Pool, t.Dialect.ForUpdate); err != nil { // the lock keeps the pool from being deleted meanwhile
			if run.CodeOf(err) != run.CodeNotFound {
				return err
			}
			return run.InvalidError("the fleet is not valid", []run.Fault{{
				Path: "pool", Code: run.FaultUnknownPool,
				Detail: fmt.Sprintf("there is no pool %s: create it first, so that tasks can wait for its instances", spec.Pool),
			}})
		}
		created = fresh || prev.Mode == run.FleetDeleted
		// A client of an earlier version does not know the groups, and must not give the
		// machines to all of them.
		if len(spec.AllowedGroups) == 0 && !created {
			spec.AllowedGroups = prev.Spec.AllowedGroups
		}
		revision, revised, err := s.putRevision(ctx, t, name, spec, prev, by)
		if err != nil {
			return err
		}
		if err := writeFleet(ctx, t, name, spec, prev, revision); err != nil {
			return err
		}
		f, err := rows.ReadFleet(ctx, t, s.db.Keys, name, "")
		if err != nil {
			return err
		}
		kind, text := "changed", "its configuration was changed"
		switch {
		case created:
			kind, text = "made", "it was made"
		case revised:
			text = fmt.Sprintf("its configuration was changed; revision %d replaces its instances", f.Revision)
		}
		if err := enqueueFleet(ctx, t, f, run.FleetEvent{Kind: kind, By: by, Text: text}); err != nil {
			return err
		}
		out, err = f.View(ctx, t)
		return err
	})
	return out, created, err
}

// revisionState is the current revision of a fleet, and the state of its rollout.
type revisionState struct {
	number int
	since  int64 // as in the column rollout_since
	paused bool
}

// putRevision returns the revision of a specification, and whether an existing
// fleet had another one. prev is nil for a new fleet.
func (s *Store) putRevision(ctx context.Context, t *sqldb.Tx, name string, spec run.FleetSpec, prev *rows.Fleet, by string) (state revisionState, revised bool, err error) {
	if prev == nil || prev.Mode == run.FleetDeleted {
		state = revisionState{number: 1, since: t.Now}
		if prev != nil {
			state.number = prev.Revision + 1
		}
		return state, false, s.keepRevision(ctx, t, name, run.FleetRevision{Number: state.number, Settings: run.SettingsOf(spec), CreatedAt: sqldb.ToTime(t.Now), By: by})
	}
	state = revisionState{since: sqldb.FromTime(prev.RolloutSince), paused: prev.RolloutPaused}
	if state.number, revised, err = s.revise(ctx, t, prev, spec, by); revised {
		state.since = t.Now
	}
	return state, revised, err
}

// writeFleet creates or replaces the row of a fleet. prev is nil for a new one.
func writeFleet(ctx context.Context, t *sqldb.Tx, name string, spec run.FleetSpec, prev *rows.Fleet, revision revisionState) error {
	hidden, err := sqldb.Marshal(rows.FleetSecrets{Plugin: spec.PluginConfig, Connector: spec.ConnectorConfig})
	if err != nil {
		return err
	}
	quota := ""
	if spec.Quota != nil {
		quota = spec.Quota.Name
	}
	groups := ""
	if len(spec.AllowedGroups) > 0 {
		if groups, err = sqldb.Marshal(spec.AllowedGroups); err != nil {
			return err
		}
	}
	uses := spec.MaxUseCount
	// A version that does not know the groups writes the whole configuration, and leaves
	// their column alone.
	spec.PluginConfig, spec.ConnectorConfig, spec.AllowedGroups = nil, run.FleetConnector{}, nil
	config, err := sqldb.Marshal(spec)
	if err != nil {
		return err
	}
	if prev == nil {
		_, err = t.Exec(ctx, `INSERT INTO fleets (name, config, secrets, mode, pool, quota, created_at, updated_at, revision, rollout_since, allowed_groups)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			name, config, t.Keys.Seal(sqldb.FleetLabel(name), hidden), run.FleetActive, spec.Pool, quota, t.Now, t.Now, revision.number, revision.since, groups)
		return err
	}
	mode, created, desired, status := prev.Mode, sqldb.FromTime(prev.CreatedAt), prev.Desired, prev.Status
	if mode == run.FleetDeleted {
		mode, created, desired, status = run.FleetActive, t.Now, nil, run.FleetStatus{}
	}
	seen, err := sqldb.Marshal(status)
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `UPDATE fleets SET config = ?, secrets = ?, mode = ?, desired = ?, pool = ?, quota = ?, status = ?, created_at = ?, updated_at = ?,
		revision = ?, rollout_since = ?, rollout_paused = ?, allowed_groups = ?, version = version + 1 WHERE name = ?`,
		config, t.Keys.Seal(sqldb.FleetLabel(name), hidden), mode, orNone(desired), spec.Pool, quota, seen, created, t.Now,
		revision.number, revision.since, revision.paused, groups, name); err != nil {
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
	err = s.db.Write(ctx, "control a fleet", func(t *sqldb.Tx) error {
		f, err := rows.ExistingFleet(ctx, t, s.db.Keys, name, t.Dialect.ForUpdate)
		if err != nil {
			return err
		}
		if f.Mode == run.FleetDeleting {
			return run.Errorf(run.CodeConflict, "fleet %s is being deleted", name)
		}
		event := run.FleetEvent{Kind: string(w.Action), By: w.By, Text: sqldb.Clip(w.Reason)}
		reason := f.Reason
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
				event.Text += ": " + sqldb.Clip(w.Reason)
			}
		case run.FleetActionPauseRollout:
			f.Reason, f.RolloutPaused = reason, true
		case run.FleetActionResumeRollout:
			f.Reason, f.RolloutPaused, f.RolloutSince = reason, false, sqldb.ToTime(t.Now)
		default:
			return run.Errorf(run.CodeInvalid, "there is no action %q", w.Action)
		}
		if event.Text == "" {
			event.Text = "by hand"
		}
		out, err = controlFleet(ctx, t, f, event)
		return err
	})
	return out, err
}

func controlFleet(ctx context.Context, t *sqldb.Tx, f *rows.Fleet, event run.FleetEvent) (run.Fleet, error) {
	if _, err := t.Exec(ctx, `UPDATE fleets SET mode = ?, desired = ?, reason = ?, rollout_since = ?, rollout_paused = ?, updated_at = ?, version = version + 1
		WHERE name = ?`,
		f.Mode, orNone(f.Desired), f.Reason, sqldb.FromTime(f.RolloutSince), f.RolloutPaused, t.Now, f.Name); err != nil {
		return run.Fleet{}, err
	}
	f.UpdatedAt = sqldb.ToTime(t.Now)
	f.Version++
	if err := enqueueFleet(ctx, t, f, event); err != nil {
		return run.Fleet{}, err
	}
	return f.View(ctx, t)
}

// DeleteFleet implements records.Store.
func (s *Store) DeleteFleet(ctx context.Context, name, by string) (out run.Fleet, err error) {
	err = s.db.Write(ctx, "delete a fleet", func(t *sqldb.Tx) error {
		f, err := rows.ExistingFleet(ctx, t, s.db.Keys, name, t.Dialect.ForUpdate)
		if err != nil {
			return err
		}
		if f.Mode == run.FleetDeleting {
			out, err = f.View(ctx, t)
			return err
		}
		f.Mode, f.Desired, f.Reason = run.FleetDeleting, nil, ""
		out, err = controlFleet(ctx, t, f, run.FleetEvent{Kind: "delete", By: by, Text: "its instances are drained and deleted, and then it goes"})
		return err
	})
	return out, err
}

// enqueueFleet records the change of a client as an event, wakes the worker of the
// fleet, and enqueues a start of its workflow.
func enqueueFleet(ctx context.Context, t *sqldb.Tx, f *rows.Fleet, event run.FleetEvent) error {
	if err := addFleetEvents(ctx, t, f, []run.FleetEvent{event}); err != nil {
		return err
	}
	key := run.ID(sqldb.FleetKey + f.Name)
	t.MarkChanged(key)
	return t.Enqueue(ctx, key, records.OutboxFleet, 0)
}

// addFleetEvents appends to the events of a fleet.
func addFleetEvents(ctx context.Context, t *sqldb.Tx, f *rows.Fleet, events []run.FleetEvent) error {
	for _, e := range events {
		f.LastEvent++
		at := sqldb.FromTime(e.At)
		if at == 0 {
			at = t.Now
		}
		if _, err := t.Exec(ctx, `INSERT INTO fleet_events (fleet, number, at, kind, instance, name, actor, reason, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			f.Name, f.LastEvent, at, e.Kind, e.Instance, e.Name, e.By, e.Reason, sqldb.Clip(e.Text)); err != nil {
			return err
		}
		const now = 1000 // every so many events
		if f.LastEvent%now == 0 {
			if _, err := t.Exec(ctx, `DELETE FROM fleet_events WHERE fleet = ? AND number <= ?`, f.Name, f.LastEvent-run.KeptFleetEvents); err != nil {
				return err
			}
		}
	}
	_, err := t.Exec(ctx, `UPDATE fleets SET last_event = ? WHERE name = ?`, f.LastEvent, f.Name)
	return err
}

// FleetEvents implements records.Store.
func (s *Store) FleetEvents(ctx context.Context, name string, after int64, n int) (out []run.FleetEvent, err error) {
	err = s.db.Read(ctx, "read the events of a fleet", func(q sqldb.Querier) error {
		out = nil
		f, err := rows.ReadFleet(ctx, q, s.db.Keys, name, "")
		if err != nil {
			return err
		}
		if after < 0 {
			after = max(0, f.LastEvent-int64(n))
		}
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var e run.FleetEvent
			var at int64
			err := row.Scan(&e.Number, &at, &e.Kind, &e.Instance, &e.Name, &e.By, &e.Reason, &e.Text)
			e.At = sqldb.ToTime(at)
			out = append(out, e)
			return err
		}, `SELECT number, at, kind, instance, name, actor, reason, text FROM fleet_events WHERE fleet = ? AND number > ? ORDER BY number LIMIT ?`,
			name, after, n)
	})
	return out, err
}
