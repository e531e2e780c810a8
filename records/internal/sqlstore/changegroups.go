package sqlstore

import (
	"context"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// slotState is the state of a run in its change groups.
type slotState string

const (
	slotNotStarted slotState = "not_started" // not started yet
	slotWaiting    slotState = "waiting"
	slotHolding    slotState = "holding" // has a slot
	slotDone       slotState = "done"
)

// groupRow is a locked row of the table changegroups.
type groupRow struct {
	name       string
	maxRunning int
	onBusy     run.OnBusy
	version    int64
}

// locks are the change groups and runs that a transaction has read and locked.
type locks struct {
	groups  map[string]*groupRow // locked groups
	runs    map[run.ID]*runRow   // locked runs that may be preempted
	members map[run.ID][]string  // the groups of runs, as far as they were read
	bumped  []string             // groups whose versions are bumped
	ticks   int64
}

// locksOf returns the locks of a transaction.
func locksOf(t *tx) *locks { return valueOf[locks](t) }

// A transaction locks rows in one order, so that transactions cannot deadlock:
// first an idempotency key, then runs by id, then change groups by name, then a
// counter. Runs come before groups because most transactions lock a run whether
// it has groups or not. A transaction that later needs more runs takes their
// locks only if they are free, and else starts again.

// lockGroups locks change groups, and creates those that are new. A transaction
// calls it once, with all groups that it may change.
func (t *tx) lockGroups(ctx context.Context, names []string) error {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	locksOf(t).groups = make(map[string]*groupRow, len(names))
	if err := t.readGroups(ctx, names, t.dialect.ForUpdate); err != nil || len(locksOf(t).groups) == len(names) {
		return err
	}
	if err := bulk(ctx, t, `INSERT INTO changegroups (name) VALUES `, `(?)`, ` ON CONFLICT DO NOTHING`, len(names),
		func(i int, args []any) []any { return append(args, names[i]) }); err != nil {
		return err
	}
	return t.readGroups(ctx, names, t.dialect.ForUpdate)
}

// readGroups reads groups. lock is the clause that locks their rows.
func (t *tx) readGroups(ctx context.Context, names []string, lock string) error {
	if len(names) == 0 {
		return nil
	}
	return each(ctx, t, func(row scanner) error {
		var g groupRow
		err := row.Scan(&g.name, &g.maxRunning, &g.onBusy, &g.version)
		locksOf(t).groups[g.name] = &g
		return err
	}, `SELECT name, max_running, on_busy, version FROM changegroups WHERE name IN (`+inList(len(names))+`)
		ORDER BY name`+lock, inListArgs(names)...)
}

// textArgs returns strings as query arguments.
func textArgs[T ~string](list []T) []any {
	args := make([]any, len(list))
	for i, v := range list {
		args[i] = string(v)
	}
	return args
}

// inList returns the placeholders for up to n texts. Their number is a power of
// two, so that a database prepares few statements.
func inList(n int) string { return tuples(`?`, powerOfTwo(n)) }

// inListArgs returns the arguments for inList, padded with the last text.
func inListArgs[T ~string](list []T) []any {
	args := textArgs(list)
	for range powerOfTwo(len(list)) - len(list) {
		args = append(args, string(list[len(list)-1]))
	}
	return args
}

func powerOfTwo(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

// checkToken refuses a token if one of its groups has changed. The groups are
// locked.
func (t *tx) checkToken(token run.Token) error {
	var stale []string
	for _, name := range token.Groups() {
		if locksOf(t).groups[name].version != token[name] {
			stale = append(stale, name)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return run.Errorf(run.CodeChangeGroupConflict, "%s changed since the changegroup_token was read; read it again and retry",
		strings.Join(stale, ", "))
}

// bumpVersions bumps the versions of locked groups when the transaction ends.
func (t *tx) bumpVersions(names ...string) {
	l := locksOf(t)
	if len(l.bumped) == 0 {
		t.beforeCommit(func(ctx context.Context) error { return t.saveVersions(ctx) })
	}
	l.bumped = append(l.bumped, names...)
}

// saveVersions writes the new versions of the groups.
func (t *tx) saveVersions(ctx context.Context) error {
	names := slices.Compact(slices.Sorted(slices.Values(locksOf(t).bumped)))
	_, err := t.Exec(ctx, `UPDATE changegroups SET version = version + 1 WHERE name IN (`+inList(len(names))+`)`, inListArgs(names)...)
	return err
}

// groupsOf returns the names of a run's change groups, sorted. They never
// change.
func (t *tx) groupsOf(ctx context.Context, r *runRow) ([]string, error) {
	if !r.grouped {
		return nil, nil
	}
	if names, known := locksOf(t).members[r.id]; known {
		return names, nil
	}
	of, err := t.groupsOfAll(ctx, []run.ID{r.id})
	return of[r.id], err
}

// groupsOfAll returns the names of the change groups of several runs.
func (t *tx) groupsOfAll(ctx context.Context, ids []run.ID) (map[run.ID][]string, error) {
	if locksOf(t).members == nil {
		locksOf(t).members = make(map[run.ID][]string, len(ids))
	}
	unknown := slices.DeleteFunc(slices.Clone(ids), func(id run.ID) bool { return locksOf(t).members[id] != nil })
	for page := range slices.Chunk(unknown, queuePage) {
		if err := each(ctx, t, func(row scanner) error {
			var id run.ID
			var name string
			err := row.Scan(&id, &name)
			locksOf(t).members[id] = append(locksOf(t).members[id], name)
			return err
		}, `SELECT run_id, name FROM run_changegroups WHERE run_id IN (`+inList(len(page))+`) ORDER BY run_id, name`, inListArgs(page)...); err != nil {
			return nil, err
		}
	}
	return locksOf(t).members, nil
}

// lockRuns locks runs in the order of their ids. lock is the clause that locks
// their rows. It leaves out runs that do not exist.
func (t *tx) lockRuns(ctx context.Context, ids []run.ID, lock string) (map[run.ID]*runRow, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	runs := make(map[run.ID]*runRow, len(ids))
	for page := range slices.Chunk(ids, queuePage) {
		if err := each(ctx, t, func(row scanner) error {
			var r runRow
			err := r.scan(row)
			runs[r.id] = &r
			return err
		}, `SELECT `+runColumns+` FROM runs r WHERE r.id IN (`+inList(len(page))+`) ORDER BY r.id`+lock, inListArgs(page)...); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// queryIDs returns the ids that a query selects.
func queryIDs(ctx context.Context, q Querier, query string, args ...any) ([]run.ID, error) {
	var ids []run.ID
	err := each(ctx, q, func(row scanner) error {
		var id run.ID
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	}, query, args...)
	return ids, err
}

// groupKey is the prefix of a change group's name in the column of run ids of
// the outbox.
const groupKey = "changegroup:"

// readToken returns the versions of groups, 0 for groups without a row, and nil
// if no names are given.
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
	}, `SELECT name, version FROM changegroups WHERE name IN (`+inList(len(names))+`)`, inListArgs(names)...)
	return token, err
}
