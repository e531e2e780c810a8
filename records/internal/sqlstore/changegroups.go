package sqlstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// place is how a run stands in its change groups.
type place string

const (
	placeParked  place = "parked" // it waits to be started
	placeWaiting place = "waiting"
	placeHolding place = "holding" // it has a slot
	placeDone    place = "done"
)

// groupRow is a locked row of the table changegroups.
type groupRow struct {
	name       string
	maxRunning int
	onBusy     run.OnBusy
	version    int64
}

// Whoever locks several rows locks runs first, by id, then change groups, by
// name, then a counter: so nobody waits for somebody who waits for him. A
// transaction that finds that it needs the row of another run begins anew.

// lockGroups locks change groups, and makes those that are new. It is called
// once in a transaction, with all groups that it may change.
func (t *tx) lockGroups(ctx context.Context, names []string) error {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	t.groups = make(map[string]*groupRow, len(names))
	if len(names) == 0 {
		return nil
	}
	read := func() error {
		return each(ctx, t, func(row scanner) error {
			var g groupRow
			err := row.Scan(&g.name, &g.maxRunning, &g.onBusy, &g.version)
			t.groups[g.name] = &g
			return err
		}, `SELECT name, max_running, on_busy, version FROM changegroups WHERE name IN (`+tuples(`?`, len(names))+`)
			ORDER BY name`+t.dialect.ForUpdate, texts(names)...)
	}
	if err := read(); err != nil || len(t.groups) == len(names) {
		return err
	}
	if err := bulk(ctx, t, `INSERT INTO changegroups (name) VALUES `, `(?)`, ` ON CONFLICT DO NOTHING`, len(names),
		func(i int, args []any) []any { return append(args, names[i]) }); err != nil {
		return err
	}
	return read()
}

// texts makes arguments of texts.
func texts[T ~string](list []T) []any {
	args := make([]any, len(list))
	for i, v := range list {
		args[i] = string(v)
	}
	return args
}

// check refuses a token of which a group has changed. Its groups are locked.
func (t *tx) check(token run.Token) error {
	var stale []string
	for _, name := range token.Groups() {
		if t.groups[name].version != token[name] {
			stale = append(stale, name)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return run.Errorf(run.CodeChangeGroupConflict, "%s changed since the changegroup_token was read; read again and decide anew",
		strings.Join(stale, ", "))
}

// bump changes the version of all groups that are locked.
func (t *tx) bump(ctx context.Context) error {
	if len(t.groups) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(t.groups))
	_, err := t.Exec(ctx, `UPDATE changegroups SET version = version + 1 WHERE name IN (`+tuples(`?`, len(names))+`)`, texts(names)...)
	return err
}

// groupsOf returns the names of a run's change groups, sorted. They never
// change.
func groupsOf(ctx context.Context, q Querier, r *runRow) ([]string, error) {
	if !r.grouped {
		return nil, nil
	}
	var names []string
	err := each(ctx, q, func(row scanner) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	}, `SELECT name FROM run_changegroups WHERE run_id = ? ORDER BY name`, r.id)
	return names, err
}

// busy is a group that does not let a run in.
type busy struct {
	*groupRow
	holding int
	before  int // waiting, before the run
}

// obstacles returns those of the run's groups, which are locked, that do not
// let it in at its place in the line: each counts those before it, so that
// nobody overtakes and somebody always is next.
func (t *tx) obstacles(ctx context.Context, names []string, priority int, since int64, id run.ID) ([]busy, error) {
	var out []busy
	for _, name := range names {
		g := t.groups[name]
		if g.maxRunning == 0 {
			continue
		}
		b := busy{groupRow: g}
		if err := t.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM run_changegroups WHERE name = ? AND state = 'holding' AND run_id <> ?),
			(SELECT count(*) FROM run_changegroups WHERE name = ? AND state = 'waiting' AND (priority, since, run_id) < (?, ?, ?))`,
			name, id, name, priority, since, id).Scan(&b.holding, &b.before); err != nil {
			return nil, err
		}
		if b.holding+b.before >= g.maxRunning {
			out = append(out, b)
		}
	}
	return out, nil
}

// stand writes how a run stands in its groups.
func (t *tx) stand(ctx context.Context, id run.ID, p place) error {
	_, err := t.Exec(ctx, `UPDATE run_changegroups SET state = ?, since = ? WHERE run_id = ?`, p, t.now, id)
	return err
}

// leave gives back what a run holds or waits for, as it becomes final, and
// tells the groups that have runs waiting. Its groups are locked.
func (t *tx) leave(ctx context.Context, r *runRow) error {
	if !r.grouped {
		return nil
	}
	names, err := groupsOf(ctx, t, r)
	if err != nil {
		return err
	}
	if err := t.stand(ctx, r.id, placeDone); err != nil {
		return err
	}
	for _, name := range names {
		if err := t.tellWaiters(ctx, t.groups[name]); err != nil {
			return err
		}
	}
	return nil
}

// tellWaiters has a group's slots granted, if anybody waits for one.
func (t *tx) tellWaiters(ctx context.Context, g *groupRow) error {
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting')`, g.name).Scan(&waits); err != nil || !waits {
		return err
	}
	return t.tell(ctx, run.ID(groupKey+g.name), records.OutboxGrant, 0)
}

// groupKey precedes the name of a change group where the id of a run stands
// otherwise in the outbox.
const groupKey = "changegroup:"

// readToken returns the versions of groups, 0 for those that nobody has named
// yet, and nil where no names are given.
func readToken(ctx context.Context, q Querier, names []string) (run.Token, error) {
	if len(names) == 0 {
		return nil, nil
	}
	token := make(run.Token, len(names))
	for _, name := range names {
		token[name] = 0
	}
	err := each(ctx, q, func(row scanner) error {
		var name string
		var version int64
		err := row.Scan(&name, &version)
		token[name] = version
		return err
	}, `SELECT name, version FROM changegroups WHERE name IN (`+tuples(`?`, len(names))+`)`, texts(names)...)
	return token, err
}

// ChangeGroups implements records.Store.
func (s *Store) ChangeGroups(ctx context.Context, q run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error) {
	var out []run.ChangeGroup
	var token run.Token
	err := s.read(ctx, "reading change groups", func(tx Querier) error {
		names := slices.Compact(slices.Sorted(slices.Values(q.Names)))
		where, args := `name IN (`+tuples(`?`, max(1, len(names)))+`) ORDER BY name`, texts(names)
		if len(names) == 0 {
			limit := q.Limit
			if limit < 1 {
				limit = defaultLimit
			}
			where, args = `name > ? ORDER BY name LIMIT ?`, []any{q.After, limit}
		}
		found := make(map[string]run.ChangeGroup, len(names))
		if err := each(ctx, tx, func(row scanner) error {
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
		return nil
	})
	return out, token, err
}

// addMembers fills in the runs that hold a slot and those that are queued.
func addMembers(ctx context.Context, q Querier, g *run.ChangeGroup) error {
	g.Running, g.Queued = []run.ID{}, []run.ID{}
	for _, part := range []struct {
		list  *[]run.ID
		state place
		order string
	}{
		{&g.Running, placeHolding, `since, run_id`}, {&g.Queued, placeWaiting, `priority, since, run_id`}, {&g.Queued, placeParked, `priority, since, run_id`},
	} {
		if err := each(ctx, q, func(row scanner) error {
			var id run.ID
			err := row.Scan(&id)
			*part.list = append(*part.list, id)
			return err
		}, `SELECT run_id FROM run_changegroups WHERE name = ? AND state = ? AND state <> 'done' ORDER BY `+part.order, g.Name, part.state); err != nil {
			return err
		}
	}
	return nil
}

// PutChangeGroup implements records.Store.
func (s *Store) PutChangeGroup(ctx context.Context, g run.ChangeGroup, token run.Token) (run.ChangeGroup, run.Token, error) {
	out := g
	err := s.write(ctx, "setting a change group", func(t *tx) error {
		if err := t.lockGroups(ctx, append(token.Groups(), g.Name)); err != nil {
			return err
		}
		if err := t.check(token); err != nil {
			return err
		}
		row := t.groups[g.Name]
		row.maxRunning, row.onBusy = g.MaxRunning, g.OnBusy
		if _, err := t.Exec(ctx, `UPDATE changegroups SET max_running = ?, on_busy = ? WHERE name = ?`, g.MaxRunning, g.OnBusy, g.Name); err != nil {
			return err
		}
		if err := t.bump(ctx); err != nil {
			return err
		}
		if err := t.tellWaiters(ctx, row); err != nil {
			return err
		}
		out = run.ChangeGroup{Name: g.Name, MaxRunning: g.MaxRunning, OnBusy: g.OnBusy, Version: row.version + 1}
		return addMembers(ctx, t, &out)
	})
	if err != nil {
		return run.ChangeGroup{}, nil, err
	}
	return out, run.Token{out.Name: out.Version}, nil
}
