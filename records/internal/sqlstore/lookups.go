package sqlstore

import (
	"context"
	"slices"

	"github.com/drover-run/drover/run"
)

// state is the key by which lists and counts find runs: the phase, or the
// result of a finished run.
type state string

func stateOf(phase run.Phase, result run.Result) state {
	if phase == run.PhaseFinished {
		return state(result)
	}
	return state(phase)
}

func (r *runRow) state() state { return stateOf(r.phase, r.result) }

// states returns the states of the runs that have one of the phases and one of
// the results. An empty list matches all.
func states(phases []run.Phase, results []run.Result) []state {
	var out []state
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

// insertState, moveState and deleteState maintain the index rows by which lists
// and counts find a run.
func (t *tx) insertState(ctx context.Context, r *runRow) error {
	prefixes := groupPrefixes(r.group)
	var args []any
	for _, prefix := range prefixes {
		args = append(args, prefix, r.state(), r.id)
	}
	_, err := t.Exec(ctx, `INSERT INTO run_states (prefix, state, run_id) VALUES `+tuples(`(?, ?, ?)`, len(prefixes)), args...)
	return err
}

func (t *tx) moveState(ctx context.Context, prev, r *runRow) error {
	if prev.state() == r.state() {
		return nil
	}
	where, args := stateRows(prev)
	_, err := t.Exec(ctx, `UPDATE run_states SET state = ?`+where, append([]any{r.state()}, args...)...)
	return err
}

func (t *tx) deleteState(ctx context.Context, r *runRow) error {
	where, args := stateRows(r)
	_, err := t.Exec(ctx, `DELETE FROM run_states`+where, args...)
	return err
}

func stateRows(r *runRow) (where string, args []any) {
	prefixes := groupPrefixes(r.group)
	return ` WHERE prefix IN (` + tuples(`?`, len(prefixes)) + `) AND state = ? AND run_id = ?`, append(textArgs(prefixes), r.state(), r.id)
}
