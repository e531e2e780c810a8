package runs

import (
	"context"
	"database/sql"
	"errors"

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
			if paths, err = pathsBelow(ctx, tx, q, limit+1); err != nil {
				return err
			}
			if len(paths) > limit {
				paths = paths[:limit]
				page.After = paths[limit-1]
			}
		}
		for _, path := range paths {
			g, err := group(ctx, tx, path)
			if err != nil {
				return err
			}
			page.Groups = append(page.Groups, g)
		}
		return nil
	})
	return page, err
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

func group(ctx context.Context, q sqldb.Querier, given string) (run.Group, error) {
	g := run.Group{Path: given}
	path, _ := sqldb.QueryPath(given) // the root is ""
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
	}, `SELECT state, count(*) FROM run_states WHERE prefix = ? AND state IN ('queued', 'running') GROUP BY state`, path); err != nil {
		return g, err
	}
	last := accessPath{sources: stateSources(path, rows.States(nil, nil))}
	runs, err := last.runs(ctx, q, cursor{}, 1)
	if err == nil && len(runs) > 0 {
		g.Last = &runs[0]
	}
	return g, err
}
