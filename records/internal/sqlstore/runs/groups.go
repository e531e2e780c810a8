package runs

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// Groups implements records.Store.
func (s *Store) Groups(ctx context.Context, q run.GroupQuery) (run.GroupPage, error) {
	var page run.GroupPage
	err := s.db.Read(ctx, "count the runs of groups", func(tx sqldb.Querier) error {
		page = run.GroupPage{Groups: []run.Group{}}
		paths := q.Paths
		if len(paths) == 0 {
			limit := q.Limit
			if limit < 1 {
				limit = sqldb.DefaultLimit
			}
			var err error
			if paths, err = pathsWithin(ctx, tx, q, limit+1); err != nil {
				return err
			}
			if len(paths) > limit {
				paths = paths[:limit]
				page.After = paths[limit-1]
			}
		}
		for _, path := range paths {
			g, err := group(ctx, tx, path, partsOf(path, q.Within))
			if err != nil {
				return err
			}
			page.Groups = append(page.Groups, g)
		}
		return nil
	})
	return page, err
}

// partsOf returns the parts of a path and below that are within others: the path itself
// if there are none.
func partsOf(path string, within []string) []string {
	path, _ = sqldb.QueryPath(path) // the root is ""
	limits := sqldb.QueryPaths(within)
	if len(limits) == 0 {
		return []string{path}
	}
	var out []string
	for _, limit := range limits {
		switch {
		case run.GroupWithin(path, limit):
			return []string{path}
		case run.GroupWithin(limit, path):
			out = append(out, limit)
		}
	}
	return out
}

// pathsWithin is pathsBelow for each part of the query, in order.
func pathsWithin(ctx context.Context, q sqldb.Querier, of run.GroupQuery, n int) ([]string, error) {
	var all []string
	for _, part := range partsOf(of.Under, of.Within) {
		paths, err := pathsBelow(ctx, q, run.GroupQuery{Under: part, After: of.After}, n)
		if err != nil {
			return nil, err
		}
		all = append(all, paths...)
	}
	slices.Sort(all) // paths that are between one and those below it come from another part
	return all[:min(len(all), n)], nil
}

// pathsBelow returns up to n paths that have runs, with one index lookup each.
// Reading the paths of all runs would cost as much as there are runs.
func pathsBelow(ctx context.Context, q sqldb.Querier, of run.GroupQuery, n int) (paths []string, err error) {
	look := func(where string, args ...any) (found bool, err error) {
		var path string
		err = q.QueryRow(ctx, `SELECT group_path FROM runs WHERE `+where+` ORDER BY group_path LIMIT 1`, args...).Scan(&path)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		paths = append(paths, path)
		return true, err
	}
	under, all := sqldb.QueryPath(of.Under)
	low, high := sqldb.Below(under)
	after := of.After
	if all {
		low, high = after, "0" // '0' follows '/', with which all paths begin
	} else if after < under {
		// The path itself is not adjacent to those below it: "/a-b" is between
		// "/a" and "/a/b".
		if _, err := look(`group_path = ?`, under); err != nil {
			return nil, err
		}
	}
	operator := `>=`
	if all || after >= low {
		low, operator = after, `>`
	}
	for len(paths) < n {
		found, err := look(`group_path `+operator+` ? AND group_path < ?`, low, high)
		if err != nil || !found {
			return paths, err
		}
		low, operator = paths[len(paths)-1], `>`
	}
	return paths, nil
}

// group counts the runs in the parts of a group.
func group(ctx context.Context, q sqldb.Querier, given string, parts []string) (run.Group, error) {
	g := run.Group{Path: given}
	if len(parts) == 0 {
		return g, nil
	}
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var phase run.Phase
		var n int
		if err := row.Scan(&phase, &n); err != nil {
			return err
		}
		switch phase { //nolint:exhaustive // the query selects no others
		case run.PhaseQueued:
			g.Queued = n
		case run.PhaseRunning:
			g.Running = n
		}
		return nil
	}, `SELECT state, count(*) FROM run_states WHERE prefix IN (`+sqldb.Tuples(`?`, len(parts))+`) AND state IN ('queued', 'running') GROUP BY state`,
		sqldb.TextArgs(parts)...); err != nil {
		return g, err
	}
	var last accessPath
	for _, part := range parts {
		last.sources = append(last.sources, stateSources(part, rows.States(nil, nil))...)
	}
	runs, err := last.runs(ctx, q, cursor{}, 1)
	if err == nil && len(runs) > 0 {
		g.Last = &runs[0]
	}
	return g, err
}
