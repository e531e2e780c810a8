package sqlstore

import (
	"context"

	"github.com/drover-run/drover/run"
)

// insertOpen and what follows keep the rows by which lists and counts find
// runs by group together with phase or result.
func (t *tx) insertOpen(ctx context.Context, r *runRow) error {
	prefixes := groupPrefixes(r.group)
	return bulk(ctx, t, `INSERT INTO open_groups (prefix, phase, run_id) VALUES `, `(?, ?, ?)`, ``, len(prefixes),
		func(i int, args []any) []any { return append(args, prefixes[i], r.phase, r.id) })
}

// moveLookups follows a change of a run's phase or result.
func (t *tx) moveLookups(ctx context.Context, was, r *runRow) error {
	if was.phase != r.phase {
		if err := t.movePhase(ctx, was, r); err != nil {
			return err
		}
	}
	if was.result == r.result {
		return nil
	}
	if err := t.dropResult(ctx, was); err != nil || !rare(r.result) {
		return err
	}
	prefixes := groupPrefixes(r.group)
	return bulk(ctx, t, `INSERT INTO group_results (prefix, result, run_id) VALUES `, `(?, ?, ?)`, ` ON CONFLICT DO NOTHING`, len(prefixes),
		func(i int, args []any) []any { return append(args, prefixes[i], r.result, r.id) })
}

func (t *tx) movePhase(ctx context.Context, was, r *runRow) error {
	prefixes := groupPrefixes(r.group)
	where := ` WHERE prefix IN (` + tuples(`?`, len(prefixes)) + `) AND phase = ? AND run_id = ?`
	args := append(texts(prefixes), was.phase, r.id)
	if r.phase.Final() {
		_, err := t.Exec(ctx, `DELETE FROM open_groups`+where, args...)
		return err
	}
	_, err := t.Exec(ctx, `UPDATE open_groups SET phase = ?`+where, append([]any{r.phase}, args...)...)
	return err
}

func (t *tx) dropResult(ctx context.Context, r *runRow) error {
	if !rare(r.result) {
		return nil
	}
	prefixes := groupPrefixes(r.group)
	_, err := t.Exec(ctx, `DELETE FROM group_results WHERE prefix IN (`+tuples(`?`, len(prefixes))+`) AND result = ? AND run_id = ?`,
		append(texts(prefixes), r.result, r.id)...)
	return err
}

// rare reports whether runs of this result are few among those of a group.
func rare(result run.Result) bool { return result == run.ResultFailed || result == run.ResultStopped }
