package fleets

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/executors"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const ledgerColumns = `number, instance, request, acknowledged, cause, state, message, reason, executor, uses, failures, requested_at, created_at, running_at,
	ready_at, draining_at, deleting_at, gone_at, last_used, missing_from, misses, revision`

func scanLedger(row sqldb.Scanner) (records.LedgerRow, error) {
	var r records.LedgerRow
	var at [9]int64
	err := row.Scan(&r.Number, &r.Instance, &r.Request, &r.Acknowledged, &r.Cause, &r.State, &r.Message, &r.Reason, &r.Executor, &r.Uses, &r.Failures,
		&at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &at[6], &at[7], &at[8], &r.Misses, &r.Revision)
	r.RequestedAt, r.CreatedAt, r.RunningAt, r.ReadyAt = sqldb.ToTime(at[0]), sqldb.ToTime(at[1]), sqldb.ToTime(at[2]), sqldb.ToTime(at[3])
	r.DrainingAt, r.DeletingAt, r.GoneAt = sqldb.ToTime(at[4]), sqldb.ToTime(at[5]), sqldb.ToTime(at[6])
	r.LastUsed, r.MissingFrom = sqldb.ToTime(at[7]), sqldb.ToTime(at[8])
	return r, err
}

// ledgerValues returns the values of ledgerColumns without the number and the
// revision. Only an undo changes the revision of a row.
func ledgerValues(r records.LedgerRow) []any {
	return []any{
		r.Instance, r.Request, r.Acknowledged, r.Cause, r.State, sqldb.Clip(r.Message), r.Reason, r.Executor, r.Uses, r.Failures,
		sqldb.FromTime(r.RequestedAt), sqldb.FromTime(r.CreatedAt), sqldb.FromTime(r.RunningAt), sqldb.FromTime(r.ReadyAt), sqldb.FromTime(r.DrainingAt), sqldb.FromTime(r.DeletingAt),
		sqldb.FromTime(r.GoneAt), sqldb.FromTime(r.LastUsed), sqldb.FromTime(r.MissingFrom), r.Misses,
	}
}

// FleetInstances implements records.Store.
func (s *Store) FleetInstances(ctx context.Context, name string, gone bool) (out []run.FleetInstance, err error) {
	err = s.db.Read(ctx, "list the instances of a fleet", func(q sqldb.Querier) error {
		out = nil
		f, err := rows.ReadFleet(ctx, q, s.db.Keys, name, "")
		if err != nil {
			return err
		}
		collect := func(row sqldb.Scanner) error {
			r, err := scanLedger(row)
			out = append(out, r.FleetInstance)
			return err
		}
		if gone {
			err = sqldb.Each(ctx, q, collect, `SELECT `+ledgerColumns+` FROM fleet_instances WHERE fleet = ? AND state = 'gone' ORDER BY number DESC LIMIT ?`,
				name, run.MaxFleetGone)
		}
		if err == nil {
			err = sqldb.Each(ctx, q, collect, `SELECT `+ledgerColumns+` FROM fleet_instances WHERE fleet = ? AND state <> 'gone' ORDER BY number`, name)
		}
		if err != nil {
			return err
		}
		slices.SortFunc(out, func(a, b run.FleetInstance) int { return a.Number - b.Number })
		executors, err := fleetExecutors(ctx, q, f, s.db.Now().UnixNano())
		if err != nil {
			return err
		}
		for i := range out {
			for _, e := range executors {
				if out[i].Instance != "" && e.Instance == out[i].Instance && out[i].State != run.InstanceGone {
					out[i].Tasks += e.Tasks
					out[i].Uses = max(out[i].Uses, e.Uses)
				}
			}
		}
		return nil
	})
	return out, err
}

// fleetExecutors returns the executors that are instances of a fleet.
func fleetExecutors(ctx context.Context, q sqldb.Querier, f *rows.Fleet, now int64) ([]run.Executor, error) {
	var out []run.Executor
	index := map[string]int{}
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var e executors.ExecutorRow
		if err := e.Scan(row); err != nil {
			return err
		}
		x, err := e.Describe(now)
		index[x.ID] = len(out)
		out = append(out, x)
		return err
	}, `SELECT `+executors.ExecutorColumns+` FROM executors WHERE fleet = ? AND fleet <> '' AND NOT removed ORDER BY id`, f.Name); err != nil || len(out) == 0 {
		return out, err
	}
	return out, sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var id string
		var n int
		err := row.Scan(&id, &n)
		if i, ok := index[id]; ok {
			out[i].Tasks = n
		}
		return err
		// These are the executors' pools, since the fleet's pool may have
		// changed.
	}, `SELECT executor, count(*) FROM tasks WHERE pool IN (SELECT pool FROM executors WHERE fleet = ? AND NOT removed)
		AND status IN ('queued', 'running') AND status = 'running' GROUP BY executor`, f.Name)
}

// quotaShares returns the use of a fleet's quota by other fleets.
func (s *Store) quotaShares(ctx context.Context, q sqldb.Querier, f *rows.Fleet) ([]records.QuotaShare, error) {
	shares := map[string]records.QuotaShare{}
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		other, err := rows.ScanFleet(s.db.Keys, row)
		if err == nil {
			shares[other.Name] = records.QuotaShare{Fleet: other.Name, Spec: other.Spec, Target: other.Status.Target, SeenAt: other.Status.SeenAt}
		}
		return err
	}, `SELECT `+rows.FleetColumns+` FROM fleets WHERE quota = ? AND mode <> ? AND name <> ?`, f.Spec.Quota.Name, run.FleetDeleted, f.Name); err != nil {
		return nil, err
	}
	if len(shares) == 0 {
		return nil, nil
	}
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var name string
		var n int
		err := row.Scan(&name, &n)
		if share, ok := shares[name]; ok {
			share.Instances = n
			shares[name] = share
		}
		return err
	}, `SELECT fleet, count(*) FROM fleet_instances WHERE state <> 'gone' AND state <> 'ignored' GROUP BY fleet`)
	out := make([]records.QuotaShare, 0, len(shares))
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		out = append(out, shares[name])
	}
	return out, err
}

// ChangeFleet implements records.Store.
func (s *Store) ChangeFleet(ctx context.Context, name string, c records.FleetChanges) (written []int, err error) {
	err = s.db.Write(ctx, "change a fleet", func(t *sqldb.Tx) error {
		written = nil
		c := c
		if c.Capacity != nil {
			if err := lockFleets(ctx, t, name); err != nil {
				return err
			}
		}
		f, err := rows.ExistingFleet(ctx, t, s.db.Keys, name, t.Dialect.ForUpdate)
		if err != nil {
			return err
		}
		if c.Capacity != nil {
			if c.Add, err = s.withinCapacity(ctx, t, f, c); err != nil {
				return err
			}
		}
		events := slices.Clone(c.Events)
		note := func(number int, change records.LedgerChange) {
			written = append(written, number)
			if change.Event != nil {
				e := *change.Event
				e.Instance, e.Name = number, change.Instance
				events = append(events, e)
			}
		}
		if err := setLedger(ctx, t, f, c.Set, note); err != nil {
			return err
		}
		if err := addLedger(ctx, t, f, c, note); err != nil {
			return err
		}
		if len(events) > 0 {
			if err := addFleetEvents(ctx, t, f, events); err != nil {
				return err
			}
		}
		if len(written) > 0 || len(events) > 0 || c.Error != nil || c.Deleted {
			t.MarkChanged(run.ID(sqldb.FleetKey + name))
		}
		if c.Error != nil {
			status := *cmp.Or(c.Status, &f.Status)
			status.Error, status.ErrorAt = c.Error.Text, c.Error.At
			c.Status = &status
		}
		return saveFleetState(ctx, t, name, c)
	})
	return written, err
}

func setLedger(ctx context.Context, t *sqldb.Tx, f *rows.Fleet, set []records.LedgerChange, note func(int, records.LedgerChange)) error {
	for _, change := range set {
		done, err := t.Exec(ctx, `UPDATE fleet_instances SET instance = ?, request = ?, acknowledged = ?, cause = ?, state = ?, message = ?, reason = ?,
			executor = ?, uses = ?, failures = ?, requested_at = ?, created_at = ?, running_at = ?, ready_at = ?, draining_at = ?, deleting_at = ?,
			gone_at = ?, last_used = ?, missing_from = ?, misses = ? WHERE fleet = ? AND number = ? AND state = ?`,
			append(ledgerValues(change.LedgerRow), f.Name, change.Number, change.From)...)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		if err != nil {
			return err
		}
		if n > 0 {
			note(change.Number, change)
		}
	}
	return nil
}

func addLedger(ctx context.Context, t *sqldb.Tx, f *rows.Fleet, c records.FleetChanges, note func(int, records.LedgerChange)) error {
	if len(c.Add) == 0 {
		return nil
	}
	if c.Request != "" {
		var known bool
		if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM fleet_instances WHERE fleet = ? AND request = ?)`, f.Name, c.Request).Scan(&known); err != nil || known {
			return err
		}
	}
	for _, change := range c.Add {
		if change.Instance != "" { // one row per machine
			var known bool
			if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM fleet_instances WHERE fleet = ? AND instance = ? AND state <> 'gone')`,
				f.Name, change.Instance).Scan(&known); err != nil {
				return err
			}
			if known {
				continue
			}
		}
		f.LastNumber++
		if _, err := t.Exec(ctx, `INSERT INTO fleet_instances (fleet, `+ledgerColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			slices.Concat([]any{f.Name, f.LastNumber}, ledgerValues(change.LedgerRow), []any{cmp.Or(change.Revision, f.Revision)})...); err != nil {
			return err
		}
		note(f.LastNumber, change)
	}
	_, err := t.Exec(ctx, `UPDATE fleets SET last_number = ? WHERE name = ?`, f.LastNumber, f.Name)
	return err
}

// saveFleetState writes the changes that are not of rows.
func saveFleetState(ctx context.Context, t *sqldb.Tx, name string, c records.FleetChanges) error {
	if c.Status != nil {
		text, err := sqldb.Marshal(c.Status)
		if err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `UPDATE fleets SET status = ? WHERE name = ?`, text, name); err != nil {
			return err
		}
	}
	if c.PolicyState != nil {
		if _, err := t.Exec(ctx, `UPDATE fleets SET policy_state = ? WHERE name = ?`, *c.PolicyState, name); err != nil {
			return err
		}
	}
	if !c.Deleted {
		return nil
	}
	if _, err := t.Exec(ctx, `DELETE FROM fleet_revisions WHERE fleet = ?`, name); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `UPDATE fleets SET mode = ?, updated_at = ? WHERE name = ? AND mode = ?`, run.FleetDeleted, t.Now, name, run.FleetDeleting)
	return err
}

// WatchFleets implements records.Store.
func (s *Store) WatchFleets() (signal <-chan struct{}, stop func()) { return s.db.Hub.Watch("") }
