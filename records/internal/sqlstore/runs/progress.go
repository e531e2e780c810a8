package runs

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// LoadPlan implements records.Store.
func (s *Store) LoadPlan(ctx context.Context, id run.ID, page int) (run.Plan, bool, error) {
	var plan run.Plan
	more := false
	err := s.db.Read(ctx, "load a plan", func(q sqldb.Querier) error {
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
		return sqldb.Unmarshal(text, &plan)
	})
	return plan, more, err
}

// Begin implements records.Store.
func (s *Store) Begin(ctx context.Context, id run.ID) (run.Progress, error) {
	var status run.Progress
	err := s.db.Write(ctx, "begin a run", func(t *sqldb.Tx) error {
		prev, err := rows.LockRun(ctx, t, id)
		if err != nil {
			return err
		}
		r := prev.Clone()
		begins, err := begins(ctx, t, r)
		if err != nil {
			return err
		}
		if begins {
			r.Phase, r.Started = run.PhaseRunning, t.Now
			t.Emit(r.Event(t.Now))
			if err := rows.SaveRun(ctx, t, prev, r); err != nil {
				return err
			}
		}
		status = r.Progress()
		status.Granted, err = changegroups.GrantedTasks(ctx, t, r)
		return err
	})
	return status, err
}

// begins reports whether a run may become running: it is queued and admitted,
// and holds the slots of its groups. begins locks its groups.
func begins(ctx context.Context, t *sqldb.Tx, r *rows.Run) (bool, error) {
	if r.Phase != run.PhaseQueued || r.Admission == run.AdmissionManual && !r.Admitted {
		return false, nil
	}
	groups, err := changegroups.GroupsOf(ctx, t, r)
	if err != nil {
		return false, err
	}
	ofTasks, err := changegroups.GroupsOfTasks(ctx, t, r)
	if err != nil {
		return false, err
	}
	if groups = append(groups, ofTasks...); len(groups) == 0 {
		return true, nil
	}
	if err := changegroups.LockGroups(ctx, t, groups, nil); err != nil {
		return false, err
	}
	var holds bool
	err = t.QueryRow(ctx, `SELECT NOT EXISTS (SELECT 1 FROM run_changegroups WHERE run_id = ? AND state <> 'holding')`, r.ID).Scan(&holds)
	if holds {
		changegroups.BumpVersions(t, groups...)
	}
	return holds, err
}

// Apply implements records.Store.
func (s *Store) Apply(ctx context.Context, id run.ID, c records.Changes) (run.Progress, []run.TaskStatus, error) {
	var status run.Progress
	var statuses []run.TaskStatus
	err := s.decide(ctx, func(work *deciding) error {
		changes := c
		if work.patient {
			left := work.left
			changes = records.Changes{}
			for _, change := range c.Tasks {
				if slices.Contains(left, change.Task) {
					changes.Tasks = append(changes.Tasks, change)
				}
			}
		}
		progress, written, err := s.apply(ctx, id, changes, work)
		if err != nil {
			return err
		}
		progress.Granted = append(status.Granted, progress.Granted...) // each transaction returns those of its tasks
		status = progress
		if !work.patient {
			statuses = written
			return nil
		}
		for _, now := range written {
			for i := range statuses {
				if statuses[i].Task == now.Task {
					statuses[i] = now
				}
			}
		}
		return nil
	})
	return status, statuses, err
}

// apply writes changes in one transaction.
func (s *Store) apply(ctx context.Context, id run.ID, c records.Changes, work *deciding) (run.Progress, []run.TaskStatus, error) {
	var status run.Progress
	var statuses []run.TaskStatus
	err := s.db.Write(ctx, "write the state of a run", func(t *sqldb.Tx) error {
		work.reset()
		prev, err := rows.LockRun(ctx, t, id)
		if err != nil {
			return err
		}
		tasks, err := named(ctx, t, id, c.Tasks)
		if err != nil {
			return err
		}
		r := prev.Clone()
		limits := acquireLimits{}
		if !r.Phase.Final() {
			if err := apply(ctx, t, prev, r, tasks, c, limits, work); err != nil {
				return err
			}
		}
		status, statuses = r.Progress(), make([]run.TaskStatus, len(c.Tasks))
		if status.Granted, err = granted(ctx, t, r, c.Tasks); err != nil {
			return err
		}
		for i, change := range c.Tasks {
			x := tasks[change.Task]
			statuses[i] = run.TaskStatus{Task: x.Number, Attempt: x.Attempt, Dispatch: x.Dispatch, Status: x.Status}
			if change.Status == run.StatusQueued && x.Status == run.StatusQueued {
				limit, err := limits.of(ctx, t, x)
				if err != nil {
					return err
				}
				statuses[i].AcquireTimeout = run.Duration(limit.timeout)
			}
		}
		return nil
	})
	return status, statuses, err
}

// named reads the tasks that changes name, by number.
func named(ctx context.Context, t *sqldb.Tx, id run.ID, changes []run.TaskChange) (map[int]*rows.Task, error) {
	numbers := make([]int, len(changes))
	for i, c := range changes {
		numbers[i] = c.Task
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	tasks := make(map[int]*rows.Task, len(numbers))
	err := sqldb.InChunks(numbers, func(placeholders string, args []any) error {
		rows, err := rows.QueryTasks(ctx, t, `run_id = ? AND number IN `+placeholders, append([]any{id}, args...)...)
		for i := range rows {
			tasks[rows[i].Number] = &rows[i]
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
func apply(
	ctx context.Context, t *sqldb.Tx, prev, r *rows.Run, tasks map[int]*rows.Task, c records.Changes, limits acquireLimits, work *deciding,
) error {
	if c.Result != "" {
		r.Result = c.Result
	}
	if c.Reason != "" {
		r.Reason = sqldb.Clip(c.Reason)
	}
	var changed, waiting []*rows.Task
	conditions, slots := newDecider(t, r, tasks, work), newSlotMoves(t, r, c.Tasks...)
	for i := range c.Tasks {
		x := tasks[c.Tasks[i].Task]
		before := x.TaskState
		if claimed, err := stillClaimed(ctx, t, r.ID, x, &c.Tasks[i]); err != nil {
			return err
		} else if claimed {
			continue
		}
		change, ok, err := conditions.change(ctx, x, &c.Tasks[i])
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if change, err = slots.change(ctx, x, change); err != nil {
			return err
		}
		if change, err = limits.change(ctx, t, x, change); err != nil {
			return err
		}
		if err := x.Apply(change, t.Now); err != nil {
			return err
		}
		if x.TaskState == before {
			continue
		}
		if x.Status != before.Status {
			r.Counts.Move(before.Status, x.Status)
		}
		t.Emit(x.Event(r, t.Now))
		if x.Status == run.StatusWaitingApproval && before.Status != x.Status {
			waiting = append(waiting, x)
			wanted := x.Event(r, t.Now)
			wanted.Type = run.EventApprovalWanted
			t.Emit(wanted)
		}
		if !slices.Contains(changed, x) {
			changed = append(changed, x)
		}
	}
	if err := rows.SaveTasks(ctx, t, r.ID, changed); err != nil {
		return err
	}
	if err := conditions.save(ctx); err != nil {
		return err
	}
	if err := beginWaits(ctx, t, r.ID, waiting); err != nil {
		return err
	}
	if c.Finish {
		if n := r.Counts.Open(); n > 0 {
			return run.Errorf(run.CodeConflict, "run %s cannot be finished: %d of its tasks are not final", r.ID, n)
		}
		r.Phase, r.Ended = run.PhaseFinished, t.Now
	}
	if err := slots.save(ctx, changed); err != nil {
		return err
	}
	if r.Phase != prev.Phase || r.Result != prev.Result || r.Reason != prev.Reason {
		t.Emit(r.Event(t.Now))
	} else if len(changed) == 0 {
		return nil
	}
	return rows.SaveRun(ctx, t, prev, r)
}

// stillClaimed reports whether a change would queue another dispatch of an
// attempt whose claim is open and not released by the claim's journal.
func stillClaimed(ctx context.Context, t *sqldb.Tx, id run.ID, x *rows.Task, c *run.TaskChange) (bool, error) {
	if !c.IfUnclaimed || c.Status != run.StatusQueued || x.Status != run.StatusRunning || c.Attempt != x.Attempt || c.Dispatch <= x.Dispatch {
		return false, nil
	}
	by, err := rows.ReadClaimant(ctx, t, run.Key{Run: id, Task: x.Number, Attempt: x.Attempt, Dispatch: x.Dispatch})
	return by.Executor != "" && !by.ReleasedBy(c.Released), err
}

// Holders implements records.Store.
func (s *Store) Holders(ctx context.Context, id run.ID) (map[int]records.Holder, error) {
	var holders map[int]records.Holder
	err := s.db.Read(ctx, "read the claims of a run", func(q sqldb.Querier) error {
		holders = make(map[int]records.Holder)
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			key := run.Key{Run: id}
			var h records.Holder
			if err := row.Scan(&key.Task, &key.Attempt, &key.Dispatch, &h.Executor, &h.Set); err != nil {
				return err
			}
			h.Key = key
			holders[key.Task] = h
			return nil
		}, `SELECT c.task, c.attempt, c.dispatch, c.executor, c.set_name FROM claims c JOIN tasks t ON t.run_id = c.run_id AND t.number = c.task
			WHERE c.run_id = ? AND t.status IN ('not_started', 'waiting_approval', 'waiting_changegroup', 'queued', 'running')
			AND c.attempt = t.attempt AND c.dispatch = t.dispatch`, id)
	})
	return holders, err
}
