package archives

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// Workspaces implements records.Store.
func (s *Store) Workspaces(ctx context.Context, c records.ArchiveClaim) ([]records.Archive, error) {
	var out []records.Archive
	err := s.db.ReadFor(ctx, "find workspaces", c.Executor, func(q sqldb.Querier) error {
		x, err := claimedTask(ctx, q, c)
		if err != nil {
			return err
		}
		plan, err := planOf(ctx, q, c.Key.Run)
		if err != nil {
			return err
		}
		out, err = workspaces(ctx, q, c.Key.Run, graph.Levels(plan.Nodes, x.Node))
		return err
	})
	return out, err
}

// workspaces reads what the tasks of nodes saved. levels holds the nodes with
// their levels.
func workspaces(ctx context.Context, q sqldb.Querier, id run.ID, levels map[int]int) ([]records.Archive, error) {
	type found struct {
		records.Archive
		level int
	}
	var all []found
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var f found
		var node int
		var task string
		if err := scanArchive(row, &f.Archive, &task, &node); err != nil {
			return err
		}
		f.Task = task
		level, above := levels[node]
		if f.level = level; above {
			all = append(all, f)
		}
		return nil
	}, `SELECT `+archiveColumns+`, t.name, t.node FROM archives a JOIN tasks t
		ON t.run_id = a.run_id AND t.number = a.task AND t.attempt = a.attempt AND t.dispatch = a.dispatch
		WHERE a.run_id = ? AND a.kind = 'workspace'`, id); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.level, b.level), strings.Compare(a.Task, b.Task), cmp.Compare(a.Step, b.Step))
	})
	out := make([]records.Archive, len(all))
	for i, f := range all {
		out[i] = f.Archive
	}
	return out, nil
}

// planOf reads the whole plan of a run.
func planOf(ctx context.Context, q sqldb.Querier, id run.ID) (run.Plan, error) {
	var pages []run.Plan
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var text string
		if err := row.Scan(&text); err != nil {
			return err
		}
		var page run.Plan
		err := sqldb.Unmarshal(text, &page)
		pages = append(pages, page)
		return err
	}, `SELECT plan FROM plan_pages WHERE run_id = ? ORDER BY page`, id)
	return run.MergePlans(pages), err
}
