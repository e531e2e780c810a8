package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// LoadPlan implements records.Store.
func (s *Store) LoadPlan(ctx context.Context, id run.ID, page int) (run.Plan, bool, error) {
	var plan run.Plan
	more := false
	err := s.read(ctx, "load a plan", func(q Querier) error {
		var text string
		err := q.QueryRow(ctx, `SELECT plan FROM plan_pages WHERE run_id = ? AND page = ?`, id, page).Scan(&text)
		if errors.Is(err, sql.ErrNoRows) {
			return run.Errorf(run.CodeNotFound, "there is no run %s with %d pages of a plan", id, page+1)
		}
		if err != nil {
			return err
		}
		var pages int
		if err := q.QueryRow(ctx, `SELECT count(*) FROM plan_pages WHERE run_id = ?`, id).Scan(&pages); err != nil {
			return err
		}
		more = page+1 < pages
		plan = run.Plan{}
		return unmarshal(text, &plan)
	})
	return plan, more, err
}

// Begin implements records.Store.
func (s *Store) Begin(ctx context.Context, id run.ID) (run.Progress, error) {
	var status run.Progress
	err := s.write(ctx, "begin a run", func(t *tx) error {
		prev, err := t.lockRun(ctx, id)
		if err != nil {
			return err
		}
		r := prev.clone()
		begins, err := t.begins(ctx, r)
		if err != nil {
			return err
		}
		if begins {
			r.phase, r.started = run.PhaseRunning, t.now
			t.emit(r.event(t.now))
			if err := t.saveRun(ctx, prev, r); err != nil {
				return err
			}
		}
		status = r.status()
		return nil
	})
	return status, err
}

// begins reports whether a run may become running: it is queued and admitted,
// and holds the slots of its groups. begins locks its groups.
func (t *tx) begins(ctx context.Context, r *runRow) (bool, error) {
	if r.phase != run.PhaseQueued || r.admission == run.AdmissionManual && !r.admitted {
		return false, nil
	}
	groups, err := t.groupsOf(ctx, r)
	if err != nil || len(groups) == 0 {
		return err == nil, err
	}
	if err := t.lockGroups(ctx, groups); err != nil {
		return false, err
	}
	var holds bool
	err = t.QueryRow(ctx, `SELECT NOT EXISTS (SELECT 1 FROM run_changegroups WHERE run_id = ? AND state <> 'holding')`, r.id).Scan(&holds)
	if holds {
		t.bumpVersions(groups...)
	}
	return holds, err
}

func (r *runRow) status() run.Progress {
	return run.Progress{Phase: r.phase, Result: r.result, StopRequested: r.stopRequested, Approved: slices.Clone(r.approved)}
}

// Apply implements records.Store.
func (s *Store) Apply(ctx context.Context, id run.ID, c records.Changes) (run.Progress, []run.TaskStatus, error) {
	var status run.Progress
	var statuses []run.TaskStatus
	err := s.write(ctx, "write the state of a run", func(t *tx) error {
		prev, err := t.lockRun(ctx, id)
		if err != nil {
			return err
		}
		tasks, err := t.named(ctx, id, c.Tasks)
		if err != nil {
			return err
		}
		r := prev.clone()
		if !r.phase.Final() {
			if err := t.apply(ctx, prev, r, tasks, c); err != nil {
				return err
			}
		}
		status, statuses = r.status(), make([]run.TaskStatus, len(c.Tasks))
		for i, change := range c.Tasks {
			x := tasks[change.Task]
			statuses[i] = run.TaskStatus{Task: x.number, Attempt: x.attempt, Dispatch: x.dispatch, Status: x.status}
		}
		return nil
	})
	return status, statuses, err
}

// named reads the tasks that changes name, by number.
func (t *tx) named(ctx context.Context, id run.ID, changes []run.TaskChange) (map[int]*taskRow, error) {
	numbers := make([]int, len(changes))
	for i, c := range changes {
		numbers[i] = c.Task
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	tasks := make(map[int]*taskRow, len(numbers))
	err := inChunks(numbers, func(placeholders string, args []any) error {
		rows, err := queryTasks(ctx, t, `run_id = ? AND number IN `+placeholders, append([]any{id}, args...)...)
		for i := range rows {
			tasks[rows[i].number] = &rows[i]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, n := range numbers {
		if tasks[n] == nil {
			return nil, run.Errorf(run.CodeNotFound, "run %s has no task %d", id, n)
		}
	}
	return tasks, nil
}

// apply writes changes of a run that is not final.
func (t *tx) apply(ctx context.Context, prev, r *runRow, tasks map[int]*taskRow, c records.Changes) error {
	if c.Result != "" {
		r.result = c.Result
	}
	if c.Reason != "" {
		r.reason = clip(c.Reason)
	}
	var changed []*taskRow
	for i := range c.Tasks {
		x := tasks[c.Tasks[i].Task]
		before := x.taskState
		if claimed, err := t.stillClaimed(ctx, r.id, x, &c.Tasks[i]); err != nil {
			return err
		} else if claimed {
			continue
		}
		if err := x.apply(&c.Tasks[i], t.now); err != nil {
			return err
		}
		if x.taskState == before {
			continue
		}
		if x.status != before.status {
			r.counts.move(before.status, x.status)
		}
		t.emit(x.event(r, t.now))
		if !slices.Contains(changed, x) {
			changed = append(changed, x)
		}
	}
	if err := t.saveTasks(ctx, r.id, changed); err != nil {
		return err
	}
	if c.Finish {
		if n := r.counts.open(); n > 0 {
			return run.Errorf(run.CodeConflict, "run %s cannot be finished: %d of its tasks are not final", r.id, n)
		}
		r.phase, r.ended = run.PhaseFinished, t.now
		if err := t.finish(ctx, r); err != nil {
			return err
		}
	}
	if r.phase != prev.phase || r.result != prev.result || r.reason != prev.reason {
		t.emit(r.event(t.now))
	} else if len(changed) == 0 {
		return nil
	}
	return t.saveRun(ctx, prev, r)
}

// stillClaimed reports whether a change would queue another dispatch of an
// attempt whose claim is open and not released by the claim's journal.
func (t *tx) stillClaimed(ctx context.Context, id run.ID, x *taskRow, c *run.TaskChange) (bool, error) {
	if !c.IfUnclaimed || c.Status != run.StatusQueued || x.status != run.StatusRunning || c.Attempt != x.attempt || c.Dispatch <= x.dispatch {
		return false, nil
	}
	by, err := t.claimant(ctx, run.Key{Run: id, Task: x.number, Attempt: x.attempt, Dispatch: x.dispatch})
	return by.executor != "" && !by.releasedBy(c.Released), err
}

// finish releases the slots of a finished run.
func (t *tx) finish(ctx context.Context, r *runRow) error {
	groups, err := t.groupsOf(ctx, r)
	if err != nil || len(groups) == 0 {
		return err
	}
	if err := t.lockGroups(ctx, groups); err != nil {
		return err
	}
	return t.releaseSlots(ctx, r.id, groups)
}

// rank orders statuses within one dispatch: a task never goes back.
func rank(s run.Status) int {
	switch s {
	case run.StatusNotStarted:
		return 0
	case run.StatusWaitingApproval:
		return 1
	case run.StatusQueued:
		return 2
	case run.StatusRunning:
		return 3
	case run.StatusSuccess, run.StatusFailed, run.StatusSkipped, run.StatusCancelled, run.StatusStopped:
		return 4
	}
	return 0
}

// apply makes one change, unless the stored state is final or further on.
func (t *taskRow) apply(c *run.TaskChange, now int64) error {
	newer := t.olderThan(c.Attempt, c.Dispatch)
	switch {
	case t.status.Final():
		return nil
	case c.IfUnclaimed && c.Status != run.StatusQueued && t.status == run.StatusRunning:
		return nil
	case !newer && (t.attempt != c.Attempt || t.dispatch != c.Dispatch):
		return nil
	case !newer && rank(c.Status) < rank(t.status):
		return nil
	}
	if c.Executor != "" && c.Status == run.StatusRunning && c.Reason == "" && !newer && t.status == run.StatusRunning {
		// The change only names the executor of the task; the reason of its
		// silence stays.
		t.executor = cmp.Or(t.executor, c.Executor)
		return nil
	}
	if newer {
		t.redispatch(c.Attempt, c.Dispatch)
	}
	if newer || c.Status == run.StatusQueued && t.status != run.StatusQueued {
		t.queued = now
	}
	t.status, t.reason = c.Status, clip(c.Reason)
	if t.status == run.StatusRunning {
		t.executor = cmp.Or(t.executor, c.Executor)
	}
	if c.Result != nil {
		if err := t.setResult(c.Result); err != nil {
			return err
		}
	}
	if !t.status.Final() {
		return nil
	}
	if t.ended == 0 {
		t.ended = now
	}
	return t.closeSteps(now)
}

// redispatch clears the state of an earlier dispatch of a task.
func (t *taskRow) redispatch(attempt, dispatch int) {
	t.taskState = taskState{status: t.status, reason: t.reason, attempt: attempt, dispatch: dispatch}
}

// setResult writes the result of a task.
func (t *taskRow) setResult(result *run.TaskResult) error {
	if t.reason == "" {
		t.reason = clip(result.Reason)
	}
	t.exitCode, t.timedOut = sql.NullInt64{}, result.TimedOut
	if result.ExitCode != nil {
		t.exitCode = sql.NullInt64{Int64: int64(*result.ExitCode), Valid: true}
	}
	if t.started == 0 {
		t.started = fromTime(result.Started)
	}
	t.ended = fromTime(result.Ended)
	if len(result.Steps) == 0 {
		return nil
	}
	var err error
	t.steps, err = marshal(result.Steps)
	return err
}

// Holders implements records.Store.
func (s *Store) Holders(ctx context.Context, id run.ID) (map[int]records.Holder, error) {
	var holders map[int]records.Holder
	err := s.read(ctx, "read the claims of a run", func(q Querier) error {
		holders = make(map[int]records.Holder)
		return each(ctx, q, func(row scanner) error {
			key := run.Key{Run: id}
			var h records.Holder
			if err := row.Scan(&key.Task, &key.Attempt, &key.Dispatch, &h.Executor, &h.Set); err != nil {
				return err
			}
			h.Key = key
			holders[key.Task] = h
			return nil
		}, `SELECT c.task, c.attempt, c.dispatch, c.executor, c.set_name FROM claims c JOIN tasks t ON t.run_id = c.run_id AND t.number = c.task
			WHERE c.run_id = ? AND t.status IN ('not_started', 'waiting_approval', 'queued', 'running')
			AND c.attempt = t.attempt AND c.dispatch = t.dispatch`, id)
	})
	return holders, err
}
