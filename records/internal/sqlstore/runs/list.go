package runs

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// ListRuns implements records.Store.
func (s *Store) ListRuns(ctx context.Context, q run.ListQuery) (run.Page, error) {
	at, err := parseCursor(q)
	if err != nil {
		return run.Page{}, err
	}
	if err := checkSize(q); err != nil {
		return run.Page{}, err
	}
	limit := q.Limit
	if limit < 1 {
		limit = sqldb.DefaultLimit
	}
	var page run.Page
	err = s.db.Read(ctx, "list runs", func(tx sqldb.Querier) error {
		page = run.Page{}
		var err error
		if page.Token, err = changegroups.ReadToken(ctx, tx, q.TokenFor); err != nil {
			return err
		}
		accessPath, err := chooseAccessPath(ctx, tx, q, at)
		if err != nil || accessPath.none() {
			return err
		}
		runs, err := accessPath.runs(ctx, tx, at, limit+1)
		if err != nil {
			return err
		}
		ahead, behind := cursor{id: accessPath.end, back: at.back}, cursor{back: !at.back}
		if len(runs) > limit {
			runs = runs[:limit]
			ahead.id = runs[limit-1].ID
		}
		if at.id != "" {
			behind.id, behind.inclusive = at.id, !at.inclusive
			if len(runs) > 0 {
				behind.id, behind.inclusive = runs[0].ID, false
			}
		}
		if at.back {
			slices.Reverse(runs)
			ahead, behind = behind, ahead
		}
		page.Runs, page.Next, page.Prev = runs, formatCursor(q, ahead), formatCursor(q, behind)
		return nil
	})
	return page, err
}

// maxValues bounds how many values of a kind a query may name, since its cost grows with
// them.
const maxValues = 100

func checkSize(q run.ListQuery) error {
	var faults []run.Fault
	for path, n := range map[string]int{
		"group": len(q.Groups), "changegroup": len(q.ChangeGroups), "annotation": len(q.Annotations), "input": len(q.Inputs), "name": len(q.Names), "created_by": len(q.CreatedBy),
	} {
		if n > maxValues {
			faults = append(faults, run.Fault{Path: path, Code: run.CodeInvalid, Detail: "a list takes at most 100 values of one kind"})
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return run.InvalidError(faults[0].Detail, faults)
}
