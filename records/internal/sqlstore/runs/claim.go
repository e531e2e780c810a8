package runs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// Claim implements records.Store.
func (s *Store) Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error) {
	var d run.Definition
	err := s.decide(ctx, func(work *deciding) (err error) {
		d, err = s.claim(ctx, c, work)
		return err
	})
	if _, lacks := errors.AsType[lacksSlotsError](err); lacks {
		if waits := s.awaitSlots(ctx, c.Key); waits != nil {
			return d, waits
		}
	}
	return d, err
}

func (s *Store) claim(ctx context.Context, c run.ClaimRequest, work *deciding) (run.Definition, error) {
	var d run.Definition
	err := s.db.WriteFor(ctx, "claim a task", c.Executor, func(t *sqldb.Tx) error {
		work.reset()
		prev, err := rows.LockRun(ctx, t, c.Key.Run)
		if err != nil {
			return err
		}
		x, err := rows.TaskNumbered(ctx, t, c.Key.Run, c.Key.Task)
		if err != nil {
			return err
		}
		if err := checkVisible(ctx, t, c, x); err != nil {
			return err
		}
		if err := checkClaim(ctx, t, c, prev, x); err != nil {
			return err
		}
		late, err := decideLate(ctx, t, prev, x, work)
		if err != nil {
			return err
		}
		if d, err = define(ctx, t, prev, x, c.Key); err != nil {
			return err
		}
		d.Fault = cmp.Or(late, d.Fault)
		if err := checkSpecVersion(ctx, t, c, &d); err != nil {
			return err
		}
		d.Last, err = claim(ctx, t, c, prev, x)
		return err
	})
	return d, err
}

// checkVisible returns not_found to an executor that asks for a task of another pool
// than its own, or that may only reclaim tasks, unless it has claimed the task.
func checkVisible(ctx context.Context, t *sqldb.Tx, c run.ClaimRequest, x *rows.Task) error {
	if !c.ReclaimOnly && (c.Pool == "" || c.Pool == x.Pool) {
		return nil
	}
	by, err := rows.ReadClaimant(ctx, t, c.Key)
	if err == nil && !by.OwnedBy(c.Executor, c.Set) {
		err = run.Errorf(run.CodeNotFound, "task %s was not dispatched to executor %s", c.Key, c.Executor)
	}
	return err
}

// checkClaim returns why the key cannot be claimed, nil if it can.
func checkClaim(ctx context.Context, t *sqldb.Tx, c run.ClaimRequest, r *rows.Run, x *rows.Task) error {
	var drain bool
	var uses, limit int
	err := t.QueryRow(ctx, `SELECT drain_requested, uses, max_uses FROM executors WHERE id = ?`, c.Executor).Scan(&drain, &uses, &limit)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	switch {
	case c.Key.Attempt < 1 || c.Key.Dispatch < 1:
		return run.Errorf(run.CodeInvalid, "%s is not a key of a dispatch", c.Key)
	case r.Phase != run.PhaseRunning:
		return run.Errorf(run.CodeConflict, "run %s is %s", r.ID, r.Phase)
	case x.Status.Final():
		return run.Errorf(run.CodeConflict, "task %s of run %s is %s", x.Name, r.ID, x.Status)
	}
	if err := checkDispatch(ctx, t, c.Key, r, x); err != nil {
		return err
	}
	by, err := rows.ReadClaimant(ctx, t, c.Key)
	switch {
	case err != nil:
		return err
	case by.OwnedBy(c.Executor, c.Set) && by.Journal == c.JournalID:
		return nil // its own claim, also if a stop is requested: the executor is notified of that elsewhere
	case by.Executor != "":
		return run.Errorf(run.CodeClaimed, "executor %s has claimed %s", by.Executor, c.Key)
	case r.StopRequested && !x.Finally:
		return run.Errorf(run.CodeConflict, "run %s is being stopped", r.ID)
	case drain:
		return run.Errorf(run.CodeConflict, "executor %s is draining", c.Executor)
	case limit > 0 && uses >= limit:
		return run.Errorf(run.CodeConflict, "executor %s has claimed all of its %d tasks", c.Executor, limit)
	}
	if err := checkFinally(ctx, t, r, x); err != nil {
		return err
	}
	if err := checkSlots(ctx, t, r, x); err != nil {
		return err
	}
	return checkPool(ctx, t, c, x)
}

// checkPool returns why the executor may not claim a task of its pool: the executor
// lacks labels, or the pool runs as many tasks as it may.
func checkPool(ctx context.Context, t *sqldb.Tx, c run.ClaimRequest, x *rows.Task) error {
	var poolLabels, text string
	var limit int
	if err := t.QueryRow(ctx, `SELECT labels, max_running FROM pools WHERE name = ?`, x.Pool).Scan(&poolLabels, &limit); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}
	if x.Labels != "" {
		if err := t.QueryRow(ctx, `SELECT labels FROM executors WHERE id = ?`, c.Executor).Scan(&text); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var pool run.Pool
		var own, required map[string]string
		if err := errors.Join(sqldb.Unmarshal(poolLabels, &pool.Labels), sqldb.Unmarshal(text, &own), sqldb.Unmarshal(x.Labels, &required)); err != nil {
			return err
		}
		if !run.HasLabels(pool.WithLabels(own), required) {
			return run.Errorf(run.CodeConflict, "executor %s does not have %s", c.Executor, run.ShownLabels(required))
		}
	}
	if limit == 0 {
		return nil
	}
	// Claims of a pool with a limit wait for each other.
	if err := t.QueryRow(ctx, `SELECT max_running FROM pools WHERE name = ?`+t.Dialect.ForUpdate, x.Pool).Scan(&limit); err != nil {
		return err
	}
	var running int
	if err := t.QueryRow(ctx, `SELECT count(*) FROM tasks WHERE pool = ? AND status IN ('queued', 'running') AND status = 'running'
		AND NOT (run_id = ? AND number = ?)`, x.Pool, c.Key.Run, c.Key.Task).Scan(&running); err != nil {
		return err
	}
	if limit > 0 && running >= limit {
		return run.Errorf(run.CodeExhausted, "%d of at most %d tasks of pool %s are running", running, limit, x.Pool)
	}
	return nil
}

// checkFinally refuses a finally task while other tasks of its run are open: a control
// worker that is too old to know finally tasks starts them with the run.
func checkFinally(ctx context.Context, t *sqldb.Tx, r *rows.Run, x *rows.Task) error {
	if !x.Finally {
		return nil
	}
	var name string
	err := t.QueryRow(ctx, `SELECT name FROM tasks WHERE run_id = ? AND NOT finally
		AND status IN ('not_started', 'waiting_approval', 'waiting_changegroup', 'queued', 'running') ORDER BY number LIMIT 1`, r.ID).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return run.Errorf(run.CodeConflict, "task %s of run %s begins when all other tasks have ended, and %s has not", x.Name, r.ID, name)
}

// checkDispatch refuses a key that is not the task's newest, and a key of an attempt
// of which another dispatch is claimed: a workflow that was reset may have
// forgotten that dispatch, but its steps may run.
func checkDispatch(ctx context.Context, t *sqldb.Tx, k run.Key, r *rows.Run, x *rows.Task) error {
	newest := run.Key{Run: k.Run, Task: k.Task, Attempt: x.Attempt, Dispatch: x.Dispatch}
	older := k.Before(newest)
	if k == newest || !older && k.Attempt != newest.Attempt {
		return nil
	}
	by, err := rows.ReadClaimant(ctx, t, newest)
	switch {
	case err != nil:
		return err
	case by.Executor != "":
		return run.Errorf(run.CodeClaimed, "executor %s has claimed the dispatch %s of the same task", by.Executor, newest)
	case older:
		return run.Errorf(run.CodeConflict, "task %s of run %s was dispatched again since %s", x.Name, r.ID, k)
	}
	return nil
}

// checkSpecVersion refuses a task to an executor whose spec version is too old for it,
// unless the executor has claimed it already.
func checkSpecVersion(ctx context.Context, t *sqldb.Tx, c run.ClaimRequest, d *run.Definition) error {
	old := run.CheckSpecVersion(d, c.SpecVersion)
	if old == nil {
		return nil
	}
	by, err := rows.ReadClaimant(ctx, t, c.Key)
	switch {
	case err != nil:
		return err
	case by.OwnedBy(c.Executor, c.Set):
		return nil
	}
	return run.Errorf(run.CodeConflict, "executor %s: %w", c.Executor, old)
}

// claim writes a permitted claim, unless it exists. last reports that the
// executor may claim no other task.
func claim(ctx context.Context, t *sqldb.Tx, c run.ClaimRequest, prev *rows.Run, x *rows.Task) (last bool, err error) {
	done, err := t.Exec(ctx, `INSERT INTO claims (run_id, task, attempt, dispatch, executor, journal_id, claimed_at, set_name)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		c.Key.Run, c.Key.Task, c.Key.Attempt, c.Key.Dispatch, c.Executor, c.JournalID, t.Now, c.Set)
	if err != nil {
		return false, err
	}
	if last, err = countUse(ctx, t, done, c.Executor); err != nil {
		return false, err
	}
	before := x.TaskState
	if x.OlderThan(c.Key.Attempt, c.Key.Dispatch) {
		x.Redispatch(c.Key.Attempt, c.Key.Dispatch)
		x.Queued = t.Now
	}
	if x.Status == run.StatusRunning && x.Executor == c.Executor {
		if x.Reason == "" {
			return last, nil // repeated claim
		}
		x.Reason = "" // it was out of contact
	} else {
		x.Status, x.Executor, x.Reason, x.Started = run.StatusRunning, c.Executor, "", t.Now
	}
	r := prev.Clone()
	if before.Status != x.Status {
		r.Counts.Move(before.Status, x.Status)
	}
	t.Emit(x.Event(r, t.Now))
	if err := rows.SaveTasks(ctx, t, r.ID, []*rows.Task{x}); err != nil {
		return false, err
	}
	return last, rows.SaveRun(ctx, t, prev, r)
}

// countUse counts a task that an instance of a fleet claimed. An instance that
// claims its last task drains from that transaction on.
func countUse(ctx context.Context, t *sqldb.Tx, inserted sql.Result, executor string) (last bool, err error) {
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
func define(ctx context.Context, t *sqldb.Tx, r *rows.Run, x *rows.Task, key run.Key) (run.Definition, error) {
	var header, text string
	var hidden, pods, images, driver, policy sql.NullString
	var shared sql.NullBool
	if err := t.QueryRow(ctx, `SELECT d.header, s.spec, x.secrets, p.kubernetes, p.images, p.driver, p.shared, p.exec_policy FROM run_details d
		JOIN task_specs s ON s.run_id = d.run_id LEFT JOIN run_secrets x ON x.run_id = d.run_id LEFT JOIN pools p ON p.name = ?
		WHERE d.run_id = ? AND s.node = ?`, x.Pool, r.ID, x.Node).Scan(&header, &text, &hidden, &pods, &images, &driver, &shared, &policy); err != nil {
		return run.Definition{}, err
	}
	var spec run.Spec
	var task run.TaskSpec
	pool := run.Pool{Name: x.Pool, Driver: driver.String, Shared: shared.Bool, Exec: run.ExecPolicy(policy.String)}
	expanded := run.ExpandedTask{Name: x.Name, Node: x.Node, Spec: x.SpecName, Pool: x.Pool}
	if err := errors.Join(sqldb.Unmarshal(header, &spec), sqldb.Unmarshal(text, &task), sqldb.OpenSecrets(t.Keys, sqldb.RunLabel(r.ID), hidden.String, &spec.Secrets),
		sqldb.Unmarshal(x.Axis, &expanded.Axis), sqldb.Unmarshal(pods.String, &pool.Kubernetes), sqldb.Unmarshal(images.String, &pool.Images)); err != nil {
		return run.Definition{}, err
	}
	resolved, err := task.WithOutputs(outputs(ctx, t, r.ID))
	fault := ""
	switch run.CodeOf(err) {
	case "":
	case run.CodeNotFound, run.CodeInvalid:
		resolved, fault = &task, err.Error()
	default:
		return run.Definition{}, err
	}
	d := run.Define(&spec, resolved, expanded, key, r.Counter)
	pool.Define(&d)
	d.Fault = cmp.Or(fault, d.Fault)
	return d, skipSteps(&d, x)
}

// ClaimStates implements records.Store.
func (s *Store) ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	states := make(map[run.Key]run.ClaimState, len(keys))
	err := s.db.ReadFor(ctx, "read claim states", executor, func(q sqldb.Querier) error {
		set, err := rows.SetOf(ctx, q, executor)
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
func claimState(ctx context.Context, q sqldb.Querier, executor, set string, k run.Key) (run.ClaimState, error) {
	var phase run.Phase
	var status run.Status
	var claimed, known bool
	now := rows.TaskState{}
	err := q.QueryRow(ctx, `SELECT r.phase, t.status, t.attempt, t.dispatch, c.run_id IS NOT NULL,
			EXISTS (SELECT 1 FROM executors e WHERE e.id = ? AND e.pool = t.pool)
		FROM tasks t JOIN runs r ON r.id = t.run_id
		LEFT JOIN claims c ON c.run_id = t.run_id AND c.task = t.number AND c.attempt = ? AND c.dispatch = ?
			AND (c.executor = ? OR c.set_name <> '' AND c.set_name = ?)
		WHERE t.run_id = ? AND t.number = ?`,
		executor, k.Attempt, k.Dispatch, executor, set, k.Run, k.Task).
		Scan(&phase, &status, &now.Attempt, &now.Dispatch, &claimed, &known)
	over := status.Final() || k.Before(run.Key{Attempt: now.Attempt, Dispatch: now.Dispatch})
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
