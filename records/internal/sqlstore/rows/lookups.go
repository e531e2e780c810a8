// Package rows reads and writes the rows that several aggregates share: those of
// runs, tasks, claims and fleets.
package rows

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// State is the key by which lists and counts find runs: the phase, or the
// result of a finished run.
type State string

func stateOf(phase run.Phase, result run.Result) State {
	if phase == run.PhaseFinished {
		return State(result)
	}
	return State(phase)
}

func (r *Run) state() State { return stateOf(r.Phase, r.Result) }

// States returns the states of the runs that have one of the phases and one of
// the results. An empty list matches all.
func States(phases []run.Phase, results []run.Result) []State {
	var out []State
	for _, phase := range run.Phases() {
		if len(phases) > 0 && !slices.Contains(phases, phase) {
			continue
		}
		for _, result := range run.Results() {
			if len(results) > 0 && !slices.Contains(results, result) {
				continue
			}
			// A run that did not begin has no result. A running one may have a
			// result.
			if result != run.ResultUnknown && phase != run.PhaseRunning && phase != run.PhaseFinished {
				continue
			}
			if s := stateOf(phase, result); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// InsertState inserts the rows by which lists and counts find a run.
func InsertState(ctx context.Context, t *sqldb.Tx, r *Run) error {
	prefixes := sqldb.GroupPrefixes(r.Group)
	var args []any
	for _, prefix := range prefixes {
		args = append(args, prefix, r.state(), r.ID)
	}
	_, err := t.Exec(ctx, `INSERT INTO run_states (prefix, state, run_id) VALUES `+sqldb.Tuples(`(?, ?, ?)`, len(prefixes)), args...)
	return err
}

// moveState changes these rows when the state of the run changes.
func moveState(ctx context.Context, t *sqldb.Tx, prev, r *Run) error {
	if prev.state() == r.state() {
		return nil
	}
	where, args := stateRows(prev)
	_, err := t.Exec(ctx, `UPDATE run_states SET state = ?`+where, append([]any{r.state()}, args...)...)
	return err
}

// insertWarnings writes the row by which lists find a run that succeeded with warnings, when
// it ends so. All of its failed tasks were allowed to fail.
func insertWarnings(ctx context.Context, t *sqldb.Tx, prev, r *Run) error {
	if prev.Phase.Final() || r.Phase != run.PhaseFinished || r.Result != run.ResultSuccess || r.Counts[run.StatusFailed] == 0 {
		return nil
	}
	_, err := t.Exec(ctx, `INSERT INTO run_warnings (run_id) VALUES (?)`, r.ID)
	return err
}

// DeleteState deletes these rows.
func DeleteState(ctx context.Context, t *sqldb.Tx, r *Run) error {
	where, args := stateRows(r)
	_, err := t.Exec(ctx, `DELETE FROM run_states`+where, args...)
	return err
}

func stateRows(r *Run) (where string, args []any) {
	prefixes := sqldb.GroupPrefixes(r.Group)
	return ` WHERE prefix IN (` + sqldb.Tuples(`?`, len(prefixes)) + `) AND state = ? AND run_id = ?`, append(sqldb.TextArgs(prefixes), r.state(), r.ID)
}
