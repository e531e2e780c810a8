package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/drover-run/drover/run"
)

// Claim implements records.Store.
func (s *Store) Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error) {
	var d run.Definition
	err := s.writeFor(ctx, "claim a task", c.Executor, func(t *tx) error {
		prev, err := t.lockRun(ctx, c.Key.Run)
		if err != nil {
			return err
		}
		x, err := taskNumbered(ctx, t, c.Key.Run, c.Key.Task)
		if err != nil {
			return err
		}
		if err := t.checkVisible(ctx, c, x); err != nil {
			return err
		}
		if err := t.checkClaim(ctx, c, prev, x); err != nil {
			return err
		}
		if d, err = t.define(ctx, prev, x, c.Key); err != nil {
			return err
		}
		if err := t.checkSpecVersion(ctx, c, &d); err != nil {
			return err
		}
		d.Last, err = t.claim(ctx, c, prev, x)
		return err
	})
	return d, err
}

// checkVisible returns not_found to an executor that asks for a task of another pool
// than its own, or that may only reclaim tasks, unless it has claimed the task.
func (t *tx) checkVisible(ctx context.Context, c run.ClaimRequest, x *taskRow) error {
	if !c.ReclaimOnly && (c.Pool == "" || c.Pool == x.pool) {
		return nil
	}
	by, err := t.claimant(ctx, c.Key)
	if err == nil && !by.ownedBy(c.Executor, c.Set) {
		err = run.Errorf(run.CodeNotFound, "task %s was not dispatched to executor %s", c.Key, c.Executor)
	}
	return err
}

// checkClaim returns why the key cannot be claimed, nil if it can.
func (t *tx) checkClaim(ctx context.Context, c run.ClaimRequest, r *runRow, x *taskRow) error {
	var drain bool
	var uses, limit int
	err := t.QueryRow(ctx, `SELECT drain_requested, uses, max_uses FROM executors WHERE id = ?`, c.Executor).Scan(&drain, &uses, &limit)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	switch {
	case c.Key.Attempt < 1 || c.Key.Dispatch < 1:
		return run.Errorf(run.CodeInvalid, "%s is not a key of a dispatch", c.Key)
	case r.phase != run.PhaseRunning:
		return run.Errorf(run.CodeConflict, "run %s is %s", r.id, r.phase)
	case x.status.Final():
		return run.Errorf(run.CodeConflict, "task %s of run %s is %s", x.name, r.id, x.status)
	}
	if err := t.checkDispatch(ctx, c.Key, r, x); err != nil {
		return err
	}
	by, err := t.claimant(ctx, c.Key)
	switch {
	case err != nil:
		return err
	case by.ownedBy(c.Executor, c.Set) && by.journal == c.JournalID:
		return nil // its own claim, also if a stop is requested: the executor is notified of that elsewhere
	case by.executor != "":
		return run.Errorf(run.CodeClaimed, "executor %s has claimed %s", by.executor, c.Key)
	case r.stopRequested:
		return run.Errorf(run.CodeConflict, "run %s is being stopped", r.id)
	case drain:
		return run.Errorf(run.CodeConflict, "executor %s is draining", c.Executor)
	case limit > 0 && uses >= limit:
		return run.Errorf(run.CodeConflict, "executor %s has claimed all of its %d tasks", c.Executor, limit)
	}
	return nil
}

// checkDispatch refuses a key that is not the task's newest, and a key of an attempt
// of which another dispatch is claimed: a workflow that was reset may have
// forgotten that dispatch, but its steps may run.
func (t *tx) checkDispatch(ctx context.Context, k run.Key, r *runRow, x *taskRow) error {
	newest := run.Key{Run: k.Run, Task: k.Task, Attempt: x.attempt, Dispatch: x.dispatch}
	older := k.Before(newest)
	if k == newest || !older && k.Attempt != newest.Attempt {
		return nil
	}
	by, err := t.claimant(ctx, newest)
	switch {
	case err != nil:
		return err
	case by.executor != "":
		return run.Errorf(run.CodeClaimed, "executor %s has claimed the dispatch %s of the same task", by.executor, newest)
	case older:
		return run.Errorf(run.CodeConflict, "task %s of run %s was dispatched again since %s", x.name, r.id, k)
	}
	return nil
}

// checkSpecVersion refuses a task to an executor whose spec version is too old for it,
// unless the executor has claimed it already.
func (t *tx) checkSpecVersion(ctx context.Context, c run.ClaimRequest, d *run.Definition) error {
	old := run.CheckSpecVersion(d, c.SpecVersion)
	if old == nil {
		return nil
	}
	by, err := t.claimant(ctx, c.Key)
	switch {
	case err != nil:
		return err
	case by.ownedBy(c.Executor, c.Set):
		return nil
	}
	return run.Errorf(run.CodeConflict, "executor %s: %w", c.Executor, old)
}

// claimant is the executor that has claimed a key; executor is "" if there is
// no claim.
type claimant struct{ executor, set, journal string }

// ownedBy reports whether a claim is an executor's. Each member of a set shares the
// claims of the others.
func (c claimant) ownedBy(executor, set string) bool {
	return c.executor == executor || c.set != "" && c.set == set
}

// releasedBy reports whether the claim's own journal released it. A release
// without a journal is the answer of an executor that was queried about its
// claim.
func (c claimant) releasedBy(r run.Release) bool {
	if r.JournalID != "" {
		return r.JournalID == c.journal
	}
	return r.Executor != "" && r.Executor == c.executor || r.Set != "" && r.Set == c.set
}

// claimant returns the claim of a key.
func (t *tx) claimant(ctx context.Context, k run.Key) (c claimant, err error) {
	err = t.QueryRow(ctx, `SELECT executor, set_name, journal_id FROM claims WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?`,
		k.Run, k.Task, k.Attempt, k.Dispatch).Scan(&c.executor, &c.set, &c.journal)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return c, err
}

// setOf returns the set of an executor, "" for none. It is the set with which
// the executor registered, which its credentials allow.
func setOf(ctx context.Context, q Querier, executor string) (set string, err error) {
	err = q.QueryRow(ctx, `SELECT set_name FROM executors WHERE id = ?`, executor).Scan(&set)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return set, err
}

// claim writes a permitted claim, unless it exists. last reports that the
// executor may claim no other task.
func (t *tx) claim(ctx context.Context, c run.ClaimRequest, prev *runRow, x *taskRow) (last bool, err error) {
	done, err := t.Exec(ctx, `INSERT INTO claims (run_id, task, attempt, dispatch, executor, journal_id, claimed_at, set_name)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		c.Key.Run, c.Key.Task, c.Key.Attempt, c.Key.Dispatch, c.Executor, c.JournalID, t.now, c.Set)
	if err != nil {
		return false, err
	}
	if last, err = t.countUse(ctx, done, c.Executor); err != nil {
		return false, err
	}
	before := x.taskState
	if x.olderThan(c.Key.Attempt, c.Key.Dispatch) {
		x.redispatch(c.Key.Attempt, c.Key.Dispatch)
		x.queued = t.now
	}
	if x.status == run.StatusRunning && x.executor == c.Executor {
		if x.reason == "" {
			return last, nil // repeated claim
		}
		x.reason = "" // it was out of contact
	} else {
		x.status, x.executor, x.reason, x.started = run.StatusRunning, c.Executor, "", t.now
	}
	r := prev.clone()
	if before.status != x.status {
		r.counts.move(before.status, x.status)
	}
	t.emit(x.event(r, t.now))
	if err := t.saveTasks(ctx, r.id, []*taskRow{x}); err != nil {
		return false, err
	}
	return last, t.saveRun(ctx, prev, r)
}

// countUse counts a task that an instance of a fleet claimed. An instance that
// claims its last task drains from that transaction on.
func (t *tx) countUse(ctx context.Context, inserted sql.Result, executor string) (last bool, err error) {
	if n, err := inserted.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	var uses, limit int
	err = t.QueryRow(ctx, `UPDATE executors SET uses = uses + 1, drain_requested = drain_requested OR (max_uses > 0 AND uses + 1 >= max_uses),
		reason = CASE WHEN max_uses > 0 AND uses + 1 >= max_uses THEN 'it took as many tasks as it may' ELSE reason END
		WHERE id = ? AND fleet <> '' RETURNING uses, max_uses`, executor).Scan(&uses, &limit)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil // not of a fleet
	}
	if err == nil && limit > 0 && uses > limit { // two claims at the same time
		err = run.Errorf(run.CodeConflict, "executor %s has claimed all of its %d tasks", executor, limit)
	}
	return limit > 0 && uses == limit, err
}

// define builds the definition of a task.
func (t *tx) define(ctx context.Context, r *runRow, x *taskRow, key run.Key) (run.Definition, error) {
	var header, text string
	var hidden, pods sql.NullString
	var shared sql.NullBool
	if err := t.QueryRow(ctx, `SELECT d.header, s.spec, x.secrets, p.kubernetes, p.shared FROM run_details d
		JOIN task_specs s ON s.run_id = d.run_id LEFT JOIN run_secrets x ON x.run_id = d.run_id LEFT JOIN pools p ON p.name = ?
		WHERE d.run_id = ? AND s.node = ?`, x.pool, r.id, x.node).Scan(&header, &text, &hidden, &pods, &shared); err != nil {
		return run.Definition{}, err
	}
	var spec run.Spec
	var task run.TaskSpec
	pool := run.Pool{Name: x.pool, Shared: shared.Bool}
	expanded := run.ExpandedTask{Name: x.name, Node: x.node, Spec: x.specName, Pool: x.pool}
	if err := errors.Join(unmarshal(header, &spec), unmarshal(text, &task), openSecrets(t.keys, runLabel(r.id), hidden.String, &spec.Secrets),
		unmarshal(x.axis, &expanded.Axis), unmarshal(pods.String, &pool.Kubernetes)); err != nil {
		return run.Definition{}, err
	}
	resolved, err := task.WithOutputs(t.outputs(ctx, r.id))
	fault := ""
	switch run.CodeOf(err) {
	case "":
	case run.CodeNotFound, run.CodeInvalid:
		resolved, fault = &task, err.Error()
	default:
		return run.Definition{}, err
	}
	d := run.Define(&spec, resolved, expanded, key, r.counter)
	pool.Define(&d)
	d.Fault = cmp.Or(fault, d.Fault)
	return d, nil
}

// ClaimStates implements records.Store.
func (s *Store) ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	states := make(map[run.Key]run.ClaimState, len(keys))
	err := s.readFor(ctx, "read claim states", executor, func(q Querier) error {
		set, err := setOf(ctx, q, executor)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if states[k], err = claimState(ctx, q, executor, set, k); err != nil {
				return err
			}
		}
		return nil
	})
	return states, err
}

// claimState returns the state of the claim that an executor, or another of its
// set, has on a key.
func claimState(ctx context.Context, q Querier, executor, set string, k run.Key) (run.ClaimState, error) {
	var phase run.Phase
	var status run.Status
	var claimed, known bool
	now := taskState{}
	err := q.QueryRow(ctx, `SELECT r.phase, t.status, t.attempt, t.dispatch, c.run_id IS NOT NULL,
			EXISTS (SELECT 1 FROM executors e WHERE e.id = ? AND e.pool = t.pool)
		FROM tasks t JOIN runs r ON r.id = t.run_id
		LEFT JOIN claims c ON c.run_id = t.run_id AND c.task = t.number AND c.attempt = ? AND c.dispatch = ?
			AND (c.executor = ? OR c.set_name <> '' AND c.set_name = ?)
		WHERE t.run_id = ? AND t.number = ?`,
		executor, k.Attempt, k.Dispatch, executor, set, k.Run, k.Task).
		Scan(&phase, &status, &now.attempt, &now.dispatch, &claimed, &known)
	over := status.Final() || k.Before(run.Key{Attempt: now.attempt, Dispatch: now.dispatch})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return run.ClaimUnknown, nil
	case err != nil:
		return "", err
	case claimed && over:
		return run.ClaimClosed, nil
	case claimed:
		return run.ClaimOpen, nil
	case known && (over || phase.Final()):
		return run.ClaimUnclaimable, nil
	}
	return run.ClaimUnknown, nil
}
