package events

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// A read of the events of some groups has bounds: the events of other groups may be
// millions.
const (
	// maxScanned bounds the events of all groups among which one read looks for those
	// of its groups.
	maxScanned = 10_000
	// maxGroups bounds the groups whose events one read finds by index.
	maxGroups = 64
	// maxBehind bounds the concurrent reads that are far behind, so that others find a
	// connection.
	maxBehind = 2
)

// ReadEvents implements records.Store.
func (s *Store) ReadEvents(ctx context.Context, q run.EventQuery, n int) (records.EventPage, error) {
	paths, some := pathsOf(q)
	r := reader{EventQuery: q, n: n, paths: paths}
	if !some {
		r.n = 0
	}
	if q.Run == "" && len(r.paths) > 0 {
		last, err := s.LastEvent(ctx)
		if err != nil {
			return records.EventPage{}, err
		}
		if last-q.After > maxScanned {
			select {
			case s.behind <- struct{}{}:
				defer func() { <-s.behind }()
			case <-ctx.Done():
				return records.EventPage{}, s.db.Wrap("wait to read events", ctx.Err())
			}
		}
	}
	var out records.EventPage
	err := s.db.Read(ctx, "read events", func(tx sqldb.Querier) error {
		if err := checkFloor(ctx, tx, q); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, s.db.Dialect.LastEvent).Scan(&r.last); err != nil {
			return err
		}
		var err error
		out, err = r.read(ctx, tx)
		return err
	})
	return out, err
}

// pathsOf returns the group paths of a query, none for all groups. some is false if the
// query contradicts itself.
func pathsOf(q run.EventQuery) (paths []string, some bool) {
	within := sqldb.QueryPaths(q.Within)
	path, all := sqldb.QueryPath(q.Group)
	if all {
		return within, true
	}
	if len(within) == 0 {
		return []string{path}, true
	}
	for _, w := range within {
		switch {
		case path == w || strings.HasPrefix(path, w+"/"):
			return []string{path}, true
		case strings.HasPrefix(w, path+"/"):
			paths = append(paths, w)
		}
	}
	return paths, len(paths) > 0
}

// reader reads the events of a query in one transaction.
type reader struct {
	run.EventQuery

	n     int
	paths []string // of groups, none for all
	last  int64    // the greatest number of any event
}

func (r *reader) read(ctx context.Context, tx sqldb.Querier) (records.EventPage, error) {
	if r.n == 0 || r.last <= r.After {
		return r.page(nil, r.last), nil
	}
	if r.Run != "" || len(r.paths) == 0 || r.last-r.After <= maxScanned {
		return r.scan(ctx, tx, r.last)
	}
	groups, few, err := r.groups(ctx, tx)
	switch {
	case err != nil:
		return records.EventPage{}, err
	case few:
		return r.merge(ctx, tx, groups)
	}
	return r.scan(ctx, tx, r.After+maxScanned)
}

// page returns a page, whose events are all of the query up to a number unless they are
// as many as a page may have.
func (r *reader) page(events []run.Event, upTo int64) records.EventPage {
	next := max(upTo, r.After)
	if len(events) > 0 && len(events) == r.n {
		next = events[r.n-1].Number
	}
	return records.EventPage{Events: events, Next: next, More: next < r.last}
}

// scan reads the events in the order of their numbers, up to one.
func (r *reader) scan(ctx context.Context, tx sqldb.Querier, upTo int64) (records.EventPage, error) {
	all := []sqldb.Condition{{Where: `number > ? AND number <= ?`, Args: []any{r.After, upTo}}, sqldb.InGroups(`group_path`, r.paths)}
	if r.Run != "" {
		all = append(all, sqldb.Condition{Where: `run_id = ?`, Args: []any{r.Run}})
	}
	where := sqldb.AllOf(all...)
	events, err := query(ctx, tx, where.Where+` ORDER BY number LIMIT ?`, append(where.Args, r.n)...)
	return r.page(events, upTo), err
}

// groups returns the groups at and below the paths that have events. few is false if
// they are more than one read looks up.
func (r *reader) groups(ctx context.Context, tx sqldb.Querier) (groups []string, few bool, err error) {
	for _, path := range r.paths {
		low, high := sqldb.Below(path)
		for at, where := path, `group_path = ?`; ; {
			args := []any{at}
			if at != path {
				args = append(args, high)
			}
			var found string
			err := sqldb.Each(ctx, tx, func(row sqldb.Scanner) error { return row.Scan(&found) },
				`SELECT group_path FROM events WHERE `+where+` ORDER BY group_path LIMIT 1`, args...)
			if err != nil {
				return nil, false, err
			}
			if found == "" && at != path {
				break
			}
			at, where = low, `group_path >= ? AND group_path < ?`
			if found == "" {
				continue
			}
			if groups = append(groups, found); len(groups) > maxGroups {
				return nil, false, nil
			}
			if found != path {
				at, where = found, `group_path > ? AND group_path < ?`
			}
		}
	}
	return groups, true, nil
}

// merge reads the events of few groups by index.
func (r *reader) merge(ctx context.Context, tx sqldb.Querier, groups []string) (records.EventPage, error) {
	var numbers []int
	upTo := r.last
	for _, group := range groups {
		if err := sqldb.Each(ctx, tx, func(row sqldb.Scanner) error {
			var number int
			err := row.Scan(&number)
			numbers = append(numbers, number)
			return err
		}, `SELECT number FROM events WHERE group_path = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?`, group, r.After, upTo, r.n); err != nil {
			return records.EventPage{}, err
		}
		if slices.Sort(numbers); len(numbers) >= r.n {
			numbers = numbers[:r.n]
			upTo = int64(numbers[r.n-1])
		}
	}
	var events []run.Event
	err := sqldb.InChunks(numbers, func(placeholders string, args []any) error {
		some, err := query(ctx, tx, `number IN `+placeholders+` ORDER BY number`, args...)
		events = append(events, some...)
		return err
	})
	return r.page(events, r.last), err
}

// query reads events.
func query(ctx context.Context, tx sqldb.Querier, where string, args ...any) (out []run.Event, err error) {
	err = sqldb.Each(ctx, tx, func(row sqldb.Scanner) error {
		var e run.Event
		var at int64
		var code, failed sql.NullInt64
		if err := row.Scan(&e.Number, &e.Type, &at, &e.Run, &e.Group, &e.Phase, &e.Result, &e.Reason, &e.Task, &e.Status,
			&e.Attempt, &e.Executor, &code, &e.Action, &e.Actor, &e.Stage, &failed); err != nil {
			return err
		}
		e.Time = sqldb.ToTime(at)
		if code.Valid {
			n := int(code.Int64)
			e.ExitCode = &n
		}
		if failed.Valid {
			n := int(failed.Int64)
			e.FailedTasks = &n
		}
		out = append(out, e)
		return nil
	}, `SELECT number, type, at, run_id, group_path, phase, result, reason, task, status, attempt, executor, exit_code, action, actor, stage, failed_tasks
		FROM events WHERE `+where, args...)
	return out, err
}

// LastEvent implements records.Store.
func (s *Store) LastEvent(ctx context.Context) (last int64, err error) {
	err = s.db.Read(ctx, "read the last event's number", func(q sqldb.Querier) error {
		return q.QueryRow(ctx, s.db.Dialect.LastEvent).Scan(&last)
	})
	return last, err
}
