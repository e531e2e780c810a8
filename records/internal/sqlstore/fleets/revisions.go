package fleets

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// FleetRevisions implements records.Store.
func (s *Store) FleetRevisions(ctx context.Context, name string) (out []run.FleetRevision, err error) {
	err = s.db.Read(ctx, "list the revisions of a fleet", func(q sqldb.Querier) error {
		f, err := rows.ExistingFleet(ctx, q, s.db.Keys, name, "")
		if err != nil {
			return err
		}
		if out, err = s.revisionsOf(ctx, q, f); err != nil {
			return err
		}
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var number, n int
			err := row.Scan(&number, &n)
			if i := slices.IndexFunc(out, func(r run.FleetRevision) bool { return r.Number == number }); i >= 0 {
				out[i].Instances = n
			}
			return err
		}, `SELECT revision, count(*) FROM fleet_instances WHERE fleet = ? AND state <> 'gone' GROUP BY revision`, name)
	})
	return out, err
}

// revisionsOf returns the revisions of a fleet, the current one first. If the
// current one has no row, its settings are those of the fleet.
func (s *Store) revisionsOf(ctx context.Context, q sqldb.Querier, f *rows.Fleet) ([]run.FleetRevision, error) {
	var out []run.FleetRevision
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var r run.FleetRevision
		var sealed string
		var at int64
		if err := row.Scan(&r.Number, &sealed, &at, &r.By); err != nil {
			return err
		}
		r.CreatedAt = sqldb.ToTime(at)
		label := sqldb.FleetRevisionLabel(revisionID(f.Name, r.Number))
		text, err := s.db.Keys.Open(label, sealed)
		if err != nil {
			return run.Errorf(run.CodeInternal, "the settings of %s cannot be read: %w", label, err)
		}
		out = append(out, r)
		return sqldb.Unmarshal(text, &out[len(out)-1].Settings)
	}, `SELECT number, settings, created_at, actor FROM fleet_revisions WHERE fleet = ? ORDER BY number DESC`, f.Name); err != nil {
		return nil, err
	}
	if len(out) == 0 || out[0].Number != f.Revision {
		current := run.FleetRevision{Number: f.Revision, Settings: run.SettingsOf(f.Spec), CreatedAt: f.UpdatedAt}
		out = slices.Insert(out, 0, current)
	}
	return out, nil
}

// revisionID is the key of a revision. Names of fleets do not contain an @.
func revisionID(fleet string, number int) string { return fleet + "@" + strconv.Itoa(number) }

// revise makes the settings of a specification the current revision of an
// existing fleet. It returns the number of the revision, and whether it is
// another one than before.
//
// If an earlier revision has the same settings, that revision gets the new
// number, together with its instances: they need not be replaced.
func (s *Store) revise(ctx context.Context, t *sqldb.Tx, f *rows.Fleet, spec run.FleetSpec, by string) (number int, changed bool, err error) {
	all, err := s.revisionsOf(ctx, t, f)
	if err != nil {
		return 0, false, err
	}
	settings := run.SettingsOf(spec)
	if all[0].Settings.Equal(settings) {
		return f.Revision, false, s.keepRevision(ctx, t, f.Name, all[0])
	}
	if err := s.keepRevision(ctx, t, f.Name, all[0]); err != nil {
		return 0, false, err
	}
	next := run.FleetRevision{Number: f.Revision + 1, Settings: settings, CreatedAt: sqldb.ToTime(t.Now), By: by}
	for _, r := range all[1:] {
		if !r.Settings.Equal(settings) {
			continue
		}
		if _, err := t.Exec(ctx, `DELETE FROM fleet_revisions WHERE fleet = ? AND number = ?`, f.Name, r.Number); err != nil {
			return 0, false, err
		}
		if _, err := t.Exec(ctx, `UPDATE fleet_instances SET revision = ? WHERE fleet = ? AND revision = ? AND state <> 'gone'`, next.Number, f.Name, r.Number); err != nil {
			return 0, false, err
		}
	}
	if err := s.keepRevision(ctx, t, f.Name, next); err != nil {
		return 0, false, err
	}
	_, err = t.Exec(ctx, `DELETE FROM fleet_revisions WHERE fleet = ? AND number NOT IN
		(SELECT number FROM fleet_revisions WHERE fleet = ? ORDER BY number DESC LIMIT ?)`, f.Name, f.Name, run.KeptFleetRevisions)
	return next.Number, true, err
}

// keepRevision writes a revision, unless it exists.
func (s *Store) keepRevision(ctx context.Context, t *sqldb.Tx, fleet string, r run.FleetRevision) error {
	text, err := sqldb.Marshal(r.Settings)
	if err != nil {
		return err
	}
	id := revisionID(fleet, r.Number)
	_, err = t.Exec(ctx, `INSERT INTO fleet_revisions (id, fleet, number, settings, created_at, actor) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		id, fleet, r.Number, t.Keys.Seal(sqldb.FleetRevisionLabel(id), text), sqldb.FromTime(r.CreatedAt), r.By)
	return err
}

// UndoFleet implements records.Store.
func (s *Store) UndoFleet(ctx context.Context, name string, u run.FleetUndo) (out run.Fleet, err error) {
	err = s.db.Write(ctx, "undo the rollout of a fleet", func(t *sqldb.Tx) error {
		f, err := rows.ExistingFleet(ctx, t, s.db.Keys, name, t.Dialect.ForUpdate)
		if err != nil {
			return err
		}
		if f.Mode == run.FleetDeleting {
			return run.Errorf(run.CodeConflict, "fleet %s is being deleted", name)
		}
		all, err := s.revisionsOf(ctx, t, f)
		if err != nil {
			return err
		}
		to, err := run.FindRevision(name, all, u.Revision)
		if err != nil {
			return err
		}
		spec := to.Settings.ApplyTo(f.Spec)
		number, _, err := s.revise(ctx, t, f, spec, u.By)
		if err != nil {
			return err
		}
		if err := writeFleet(ctx, t, name, spec, f, revisionState{number: number, since: t.Now}); err != nil {
			return err
		}
		if f, err = rows.ReadFleet(ctx, t, s.db.Keys, name, ""); err != nil {
			return err
		}
		text := fmt.Sprintf("revision %d has the settings of revision %d", number, to.Number)
		if u.Reason != "" {
			text += ": " + sqldb.Clip(u.Reason)
		}
		if err := enqueueFleet(ctx, t, f, run.FleetEvent{Kind: "undo", By: u.By, Text: text}); err != nil {
			return err
		}
		out, err = f.View(ctx, t)
		return err
	})
	return out, err
}
