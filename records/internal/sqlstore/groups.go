package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drover-run/drover/run"
)

// Groups implements records.Store.
func (s *Store) Groups(ctx context.Context, q run.GroupQuery) (run.GroupPage, error) {
	var page run.GroupPage
	err := s.read(ctx, "counting the runs of groups", func(tx Querier) error {
		page = run.GroupPage{Groups: []run.Group{}}
		paths := q.Paths
		if len(paths) == 0 {
			limit := q.Limit
			if limit < 1 {
				limit = defaultLimit
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

// pathsBelow returns up to n paths that have runs, by one look at the index for
// each: to read all runs for their paths would cost what is stored.
func pathsBelow(ctx context.Context, q Querier, of run.GroupQuery, n int) ([]string, error) {
	var paths []string
	under, all := queryPath(of.Under)
	low, high := below(under)
	after := of.After
	for len(paths) < n {
		where, args := `group_path > ?`, []any{after}
		if !all {
			where += ` AND (group_path = ? OR group_path >= ? AND group_path < ?)`
			if after < under {
				where, args = `group_path >= ? AND (group_path = ? OR group_path >= ? AND group_path < ?)`, []any{under}
			}
			args = append(args, under, low, high)
		}
		var path string
		err := q.QueryRow(ctx, `SELECT group_path FROM runs WHERE `+where+` ORDER BY group_path LIMIT 1`, args...).Scan(&path)
		if errors.Is(err, sql.ErrNoRows) {
			return paths, nil
		}
		if err != nil {
			return nil, err
		}
		paths, after = append(paths, path), path
	}
	return paths, nil
}

func group(ctx context.Context, q Querier, given string) (run.Group, error) {
	g := run.Group{Path: given}
	path, _ := queryPath(given) // the root is ""
	if err := each(ctx, q, func(row scanner) error {
		var phase run.Phase
		var n int
		if err := row.Scan(&phase, &n); err != nil {
			return err
		}
		switch phase { //nolint:exhaustive // no others are asked for
		case run.PhaseQueued:
			g.Queued = n
		case run.PhaseRunning:
			g.Running = n
		}
		return nil
	}, `SELECT state, count(*) FROM run_states WHERE prefix = ? AND state IN ('queued', 'running') GROUP BY state`, path); err != nil {
		return g, err
	}
	last := way{sources: stateSources(path, states(nil, nil))}
	runs, err := last.runs(ctx, q, cursor{}, 1)
	if err == nil && len(runs) > 0 {
		g.Last = &runs[0]
	}
	return g, err
}
