package changegroups

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// ChangeGroups implements records.Store.
func (s *Store) ChangeGroups(ctx context.Context, q run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error) {
	var out []run.ChangeGroup
	var token run.Token
	err := s.db.Read(ctx, "read change groups", func(tx sqldb.Querier) error {
		names := slices.Compact(slices.Sorted(slices.Values(q.Names)))
		var where string
		var args []any
		if len(names) > 0 {
			where, args = `name IN (`+sqldb.InList(len(names))+`) ORDER BY name`, sqldb.InListArgs(names)
		} else {
			limit := q.Limit
			if limit < 1 {
				limit = sqldb.DefaultLimit
			}
			where, args = `name > ? ORDER BY name LIMIT ?`, []any{q.After, limit}
		}
		found := make(map[string]run.ChangeGroup, len(names))
		if err := sqldb.Each(ctx, tx, func(row sqldb.Scanner) error {
			var g run.ChangeGroup
			err := row.Scan(&g.Name, &g.MaxRunning, &g.OnBusy, &g.Version)
			found[g.Name] = g
			return err
		}, `SELECT name, max_running, on_busy, version FROM changegroups WHERE `+where, args...); err != nil {
			return err
		}
		if len(q.Names) == 0 {
			names = slices.Sorted(maps.Keys(found))
		}
		out, token = make([]run.ChangeGroup, len(names)), make(run.Token, len(names))
		for i, name := range names {
			g, ok := found[name]
			if !ok {
				g = run.ChangeGroup{Name: name, OnBusy: run.OnBusyQueue}
			}
			if err := addMembers(ctx, tx, &g); err != nil {
				return err
			}
			out[i], token[name] = g, g.Version
		}
		return addTotals(ctx, tx, out)
	})
	return out, token, err
}

// addMembers fills in the runs that hold a slot and the queued ones.
func addMembers(ctx context.Context, q sqldb.Querier, g *run.ChangeGroup) error {
	g.Running, g.Queued = []run.ID{}, []run.ID{}
	for _, part := range []struct {
		list  *[]run.ID
		state SlotState
		order string
	}{
		{&g.Running, SlotHolding, `since, run_id`}, {&g.Queued, SlotWaiting, `priority, since, run_id`}, {&g.Queued, SlotNotStarted, `priority, since, run_id`},
	} {
		ids, err := sqldb.QueryIDs(ctx, q, `SELECT run_id FROM run_changegroups WHERE name = ? AND state = '`+string(part.state)+`'`+NotDone+`
			ORDER BY `+part.order, g.Name)
		if err != nil {
			return err
		}
		*part.list = append(*part.list, ids...)
	}
	return addTasks(ctx, q, g)
}

// addTasks fills in the tasks that hold slots and those that wait for them, the first ones of
// each.
func addTasks(ctx context.Context, q sqldb.Querier, g *run.ChangeGroup) error {
	for _, part := range []struct {
		list  *[]run.TaskSlots
		state SlotState
		order string
	}{
		{&g.HoldingTasks, SlotHolding, `s.since, s.run_id, s.task`}, {&g.WaitingTasks, SlotWaiting, `s.priority, s.since, s.run_id, s.task`},
	} {
		if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var x run.TaskSlots
			err := row.Scan(&x.Run, &x.Task, &x.Units)
			*part.list = append(*part.list, x)
			return err
		}, `SELECT s.run_id, t.name, s.units FROM task_slots s JOIN tasks t ON t.run_id = s.run_id AND t.number = s.task
			WHERE s.name = ? AND s.state = '`+string(part.state)+`'`+OpenTask+` ORDER BY `+part.order+` LIMIT ?`, g.Name, run.MaxTaskSlots); err != nil {
			return err
		}
	}
	return nil
}

// PutChangeGroup implements records.Store.
func (s *Store) PutChangeGroup(ctx context.Context, g run.ChangeGroup, token run.Token) (run.ChangeGroup, run.Token, error) {
	out := g
	err := s.db.Write(ctx, "set a change group", func(t *sqldb.Tx) error {
		if err := LockGroups(ctx, t, []string{g.Name}, token); err != nil {
			return err
		}
		if err := CheckToken(t, token); err != nil {
			return err
		}
		row := LocksOf(t).groups[g.Name]
		more := g.MaxRunning == 0 || row.maxRunning > 0 && g.MaxRunning > row.maxRunning
		if _, err := t.Exec(ctx, `UPDATE changegroups SET max_running = ?, on_busy = ? WHERE name = ?`, g.MaxRunning, g.OnBusy, g.Name); err != nil {
			return err
		}
		BumpVersions(t, slices.Collect(maps.Keys(LocksOf(t).groups))...)
		if more {
			if err := enqueueGrant(ctx, t, g.Name); err != nil {
				return err
			}
		}
		out = run.ChangeGroup{Name: g.Name, MaxRunning: g.MaxRunning, OnBusy: g.OnBusy, Version: row.version + 1}
		if err := addMembers(ctx, t, &out); err != nil {
			return err
		}
		groups := []run.ChangeGroup{out}
		err := addTotals(ctx, t, groups)
		out = groups[0]
		return err
	})
	if err != nil {
		return run.ChangeGroup{}, nil, err
	}
	return out, run.Token{out.Name: out.Version}, nil
}
