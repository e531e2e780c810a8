package runs

import (
	"context"
	"database/sql"
	"strings"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// PlanList returns the database's query plan for the first page of a list, one
// step a line. It is for operators and benchmarks.
func (s *Store) PlanList(ctx context.Context, q run.ListQuery) ([]string, error) {
	var out []string
	err := s.db.Read(ctx, "explain a list", func(tx sqldb.Querier) error {
		out = nil
		accessPath, err := chooseAccessPath(ctx, tx, q, cursor{})
		if err != nil || accessPath.none() {
			return err
		}
		c := accessPath.statement(cursor{}, sqldb.DefaultLimit+1)
		return lastColumn(ctx, tx, &out, s.db.Dialect.Explain+c.Where, c.Args...)
	})
	return out, err
}

// lastColumn reads the last column of a query's rows, which holds the text of a
// plan.
func lastColumn(ctx context.Context, q sqldb.Querier, out *[]string, query string, args ...any) error {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		cells := make([]sql.RawBytes, len(names))
		dest := make([]any, len(names))
		for i := range cells {
			dest[i] = &cells[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		*out = append(*out, strings.TrimSpace(string(cells[len(cells)-1])))
	}
	return rows.Err()
}
