package changegroups

import (
	"context"
	"slices"
	"strings"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// SlotState is the state of a run in its change groups.
type SlotState string

// The slot states, in their order.
const (
	SlotNotStarted SlotState = "not_started"
	SlotWaiting    SlotState = "waiting"
	SlotHolding    SlotState = "holding" // has a slot
	SlotDone       SlotState = "done"
)

// groupRow is a locked row of the table changegroups.
type groupRow struct {
	name       string
	maxRunning int
	onBusy     run.OnBusy
	version    int64
}

// Locks are the change groups and runs that a transaction has read and locked.
type Locks struct {
	groups  map[string]*groupRow // locked groups
	Runs    map[run.ID]*rows.Run // locked runs that may be preempted
	Members map[run.ID][]string  // the groups of runs, as far as they were read
	bumped  []string             // groups whose versions are bumped
	unnamed []string             // groups of a token that nothing else has named
	ticks   int64

	preempted int // runs that the transaction preempts
	cancelled int // tasks that it cancels with them
}

// LocksOf returns the locks of a transaction.
func LocksOf(t *sqldb.Tx) *Locks { return sqldb.ValueOf[Locks](t) }

// A transaction locks rows in one order, so that transactions cannot deadlock:
// first an idempotency key, then runs by id, then change groups by name, then a
// counter. Runs come before groups because most transactions lock a run whether
// it has groups or not. A transaction that later needs more runs takes their
// locks only if they are free, and else starts again.

// LockGroups locks change groups, and creates those that are new. A transaction
// calls it once, with all groups that it may change. It locks the groups of a token too,
// but no row remains for a name that only tokens have: a group without a row has version 0.
func LockGroups(ctx context.Context, t *sqldb.Tx, groups []string, token run.Token) error {
	locks := LocksOf(t)
	names := slices.Compact(slices.Sorted(slices.Values(slices.Concat(groups, token.Groups()))))
	locks.groups = make(map[string]*groupRow, len(names))
	if err := readGroups(ctx, t, names, t.Dialect.ForUpdate); err != nil || len(locks.groups) == len(names) {
		return err
	}
	for _, name := range token.Groups() {
		if locks.groups[name] == nil && !slices.Contains(groups, name) {
			locks.unnamed = append(locks.unnamed, name)
		}
	}
	if len(locks.unnamed) > 0 {
		// Until the end of the transaction, the new row holds up a transaction that names
		// the group. If another has created it meanwhile, it has a version.
		t.BeforeCommit(func(ctx context.Context) error {
			_, err := t.Exec(ctx, `DELETE FROM changegroups WHERE version = 0 AND name IN (`+sqldb.InList(len(locks.unnamed))+`)`, sqldb.InListArgs(locks.unnamed)...)
			return err
		})
	}
	if err := sqldb.Bulk(ctx, t, `INSERT INTO changegroups (name) VALUES `, `(?)`, ` ON CONFLICT DO NOTHING`, len(names),
		func(i int, args []any) []any { return append(args, names[i]) }); err != nil {
		return err
	}
	return readGroups(ctx, t, names, t.Dialect.ForUpdate)
}

// readGroups reads groups. lock is the clause that locks their rows.
func readGroups(ctx context.Context, t *sqldb.Tx, names []string, lock string) error {
	if len(names) == 0 {
		return nil
	}
	return sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		var g groupRow
		err := row.Scan(&g.name, &g.maxRunning, &g.onBusy, &g.version)
		LocksOf(t).groups[g.name] = &g
		return err
	}, `SELECT name, max_running, on_busy, version FROM changegroups WHERE name IN (`+sqldb.InList(len(names))+`)
		ORDER BY name`+lock, sqldb.InListArgs(names)...)
}

// CheckToken refuses a token if one of its groups has changed. The groups are
// locked.
func CheckToken(t *sqldb.Tx, token run.Token) error {
	var stale []string
	for _, name := range token.Groups() {
		if LocksOf(t).groups[name].version != token[name] {
			stale = append(stale, name)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return run.Errorf(run.CodeChangeGroupConflict, "%s changed since the changegroup_token was read; read it again and retry",
		strings.Join(stale, ", "))
}

// BumpVersions bumps the versions of locked groups when the transaction ends, except of
// those that only a token has named.
func BumpVersions(t *sqldb.Tx, names ...string) {
	locks := LocksOf(t)
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.Contains(locks.unnamed, name) && locks.groups[name].version == 0
	})
	if len(locks.bumped) == 0 && len(names) > 0 {
		t.BeforeCommit(func(ctx context.Context) error { return saveVersions(ctx, t) })
	}
	locks.bumped = append(locks.bumped, names...)
}

// saveVersions writes the new versions of the groups.
func saveVersions(ctx context.Context, t *sqldb.Tx) error {
	names := slices.Compact(slices.Sorted(slices.Values(LocksOf(t).bumped)))
	_, err := t.Exec(ctx, `UPDATE changegroups SET version = version + 1 WHERE name IN (`+sqldb.InList(len(names))+`)`, sqldb.InListArgs(names)...)
	return err
}

// GroupsOf returns the names of a run's change groups, sorted. They never
// change.
func GroupsOf(ctx context.Context, t *sqldb.Tx, r *rows.Run) ([]string, error) {
	if !r.Grouped {
		return nil, nil
	}
	if names, known := LocksOf(t).Members[r.ID]; known {
		return names, nil
	}
	of, err := groupsOfAll(ctx, t, []run.ID{r.ID})
	return of[r.ID], err
}

// groupsOfAll returns the names of the change groups of several runs.
func groupsOfAll(ctx context.Context, t *sqldb.Tx, ids []run.ID) (map[run.ID][]string, error) {
	locks := LocksOf(t)
	if locks.Members == nil {
		locks.Members = make(map[run.ID][]string, len(ids))
	}
	unknown := slices.DeleteFunc(slices.Clone(ids), func(id run.ID) bool { return locks.Members[id] != nil })
	return locks.Members, readMembers(ctx, t, unknown, locks.Members)
}

// readMembers adds the names of the change groups of runs.
func readMembers(ctx context.Context, q sqldb.Querier, ids []run.ID, members map[run.ID][]string) error {
	for page := range slices.Chunk(ids, queuePage) {
		if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var id run.ID
			var name string
			err := row.Scan(&id, &name)
			members[id] = append(members[id], name)
			return err
		}, `SELECT run_id, name FROM run_changegroups WHERE run_id IN (`+sqldb.InList(len(page))+`) ORDER BY run_id, name`, sqldb.InListArgs(page)...); err != nil {
			return err
		}
	}
	return nil
}

// lockRuns locks runs in the order of their ids. lock is the clause that locks
// their rows. It leaves out runs that do not exist.
func lockRuns(ctx context.Context, t *sqldb.Tx, ids []run.ID, lock string) (map[run.ID]*rows.Run, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	runs := make(map[run.ID]*rows.Run, len(ids))
	for page := range slices.Chunk(ids, queuePage) {
		if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
			var r rows.Run
			err := r.Scan(row)
			runs[r.ID] = &r
			return err
		}, `SELECT `+rows.RunColumns+` FROM runs r WHERE r.id IN (`+sqldb.InList(len(page))+`) ORDER BY r.id`+lock, sqldb.InListArgs(page)...); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// ReadToken returns the versions of groups, 0 for groups without a row, and nil
// if no names are given.
func ReadToken(ctx context.Context, q sqldb.Querier, names []string) (run.Token, error) {
	if len(names) == 0 {
		return nil, nil
	}
	token := make(run.Token, len(names))
	for _, name := range names {
		token[name] = 0
	}
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var name string
		var version int64
		err := row.Scan(&name, &version)
		token[name] = version
		return err
	}, `SELECT name, version FROM changegroups WHERE name IN (`+sqldb.InList(len(names))+`)`, sqldb.InListArgs(names)...)
	return token, err
}
