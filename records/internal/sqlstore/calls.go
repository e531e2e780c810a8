package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// StartRun implements records.Store.
func (s *Store) StartRun(ctx context.Context, id run.ID, token run.Token) error {
	return s.change(ctx, "start a run", id, token, func(t *tx, r *runRow) error {
		switch {
		case r.phase != run.PhaseQueued:
			return wrongPhase(r, "only a queued run can be started")
		case r.admission != run.AdmissionManual:
			return wrongPhase(r, "it starts automatically")
		case r.admitted:
			return nil // it waits for its change groups
		}
		groups, err := t.groupsOf(ctx, r)
		if err != nil {
			return err
		}
		admitted, err := t.tryAdmit(ctx, groups, queueKey{id: id, priority: r.priority, since: t.now})
		if err != nil {
			return err
		}
		r.admitted = true
		if !admitted {
			return t.setSlotState(ctx, id, slotWaiting, t.now)
		}
		if err := t.admitRun(ctx, r); err != nil {
			return err
		}
		return t.enqueue(ctx, id, records.OutboxAdmit, 0)
	})
}

// CancelRun implements records.Store.
func (s *Store) CancelRun(ctx context.Context, id run.ID, token run.Token) error {
	return s.change(ctx, "cancel a run", id, token, func(t *tx, r *runRow) error {
		if r.phase != run.PhaseQueued {
			return wrongPhase(r, "only a queued run can be cancelled")
		}
		return t.cancel(ctx, r, "")
	})
}

// cancel ends a queued run whose groups are locked. reason is "" if a client
// cancelled it.
func (t *tx) cancel(ctx context.Context, r *runRow, reason string) error {
	r.phase, r.ended, r.reason = run.PhaseCancelled, t.now, reason
	tasks, err := queryTasks(ctx, t, `run_id = ? ORDER BY number`, r.id)
	if err != nil {
		return err
	}
	if err := t.closeTasks(ctx, r, tasks, func(*taskRow) (run.Status, string) {
		return run.StatusCancelled, "the run was cancelled before it began"
	}); err != nil {
		return err
	}
	groups, err := t.groupsOf(ctx, r)
	if err != nil {
		return err
	}
	if err := t.releaseSlots(ctx, r.id, groups); err != nil {
		return err
	}
	t.emit(r.event(t.now))
	return t.enqueue(ctx, r.id, records.OutboxCancel, 0)
}

// StopRun implements records.Store.
func (s *Store) StopRun(ctx context.Context, id run.ID, token run.Token) error {
	return s.change(ctx, "stop a run", id, token, func(t *tx, r *runRow) error {
		switch {
		case r.phase != run.PhaseRunning:
			return wrongPhase(r, "only a running run can be stopped")
		case r.stopRequested:
			return nil
		}
		r.stopRequested = true
		return t.enqueue(ctx, id, records.OutboxStop, 0)
	})
}

// ApproveTask implements records.Store.
func (s *Store) ApproveTask(ctx context.Context, id run.ID, task, subject string, token run.Token) error {
	return s.change(ctx, "approve a task", id, token, func(t *tx, r *runRow) error {
		x, err := taskNamed(ctx, t, id, task)
		if err != nil {
			return err
		}
		if x.status != run.StatusWaitingApproval || r.phase.Final() {
			return run.Errorf(run.CodeNotWaitingApproval, "task %s is %s and does not wait for an approval", task, x.status)
		}
		spec, err := taskSpec(ctx, t, id, x.node)
		if err != nil {
			return err
		}
		if slices.Contains(r.approved, x.number) {
			return run.Errorf(run.CodeNotWaitingApproval, "task %s has been approved", task)
		}
		done, err := t.Exec(ctx, `INSERT INTO approvals (run_id, task, subject, approved_at) VALUES (?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, id, x.number, subject, t.now)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return cmp.Or[error](err, run.Errorf(run.CodeNotWaitingApproval, "%s has approved task %s before", subject, task))
		}
		var given int
		if err := t.QueryRow(ctx, `SELECT count(*) FROM approvals WHERE run_id = ? AND task = ?`, id, x.number).Scan(&given); err != nil {
			return err
		}
		r.version++ // an approval changes the run, even if more are needed
		if given < spec.Approval.Approvers {
			return nil
		}
		r.approved = append(r.approved, x.number)
		return t.enqueue(ctx, id, records.OutboxApprove, x.number)
	})
}

// Annotate implements records.Store.
func (s *Store) Annotate(ctx context.Context, id run.ID, task string, annotations map[string]string, token run.Token) error {
	return s.change(ctx, "annotate a run", id, token, func(t *tx, r *runRow) error {
		text, err := marshal(annotations)
		if err != nil {
			return err
		}
		r.version++
		if task != "" {
			x, err := taskNamed(ctx, t, id, task)
			if err != nil {
				return err
			}
			_, err = t.Exec(ctx, `UPDATE tasks SET annotations = ? WHERE run_id = ? AND number = ?`, text, id, x.number)
			return err
		}
		var texts detailScan
		if err := t.QueryRow(ctx, `SELECT `+detailColumns+` FROM run_details d WHERE d.run_id = ?`, id).Scan(texts.dest()...); err != nil {
			return err
		}
		details, err := texts.parse()
		if err != nil {
			return err
		}
		for name, value := range details.annotations {
			if _, err := t.Exec(ctx, `DELETE FROM run_annotations WHERE name = ? AND value = ? AND run_id = ?`, name, value, id); err != nil {
				return err
			}
		}
		if err := t.insertAnnotations(ctx, id, annotations); err != nil {
			return err
		}
		_, err = t.Exec(ctx, `UPDATE run_details SET annotations = ? WHERE run_id = ?`, text, id)
		return err
	})
}

// CloseLost implements records.Store.
func (s *Store) CloseLost(ctx context.Context, id run.ID, reason string) error {
	reason = clip(reason)
	return s.change(ctx, "close a lost run", id, nil, func(t *tx, r *runRow) error {
		if r.phase.Final() {
			return nil
		}
		r.phase, r.result, r.reason, r.ended = run.PhaseFinished, run.ResultFailed, reason, t.now
		tasks, err := queryTasks(ctx, t, `run_id = ? ORDER BY number`, id)
		if err != nil {
			return err
		}
		if err := t.closeTasks(ctx, r, tasks, func(x *taskRow) (run.Status, string) {
			if x.status == run.StatusRunning || x.attempt > 1 || x.started != 0 {
				return run.StatusFailed, reason
			}
			return run.StatusSkipped, reason
		}); err != nil {
			return err
		}
		groups, err := t.groupsOf(ctx, r)
		if err != nil {
			return err
		}
		if err := t.releaseSlots(ctx, id, groups); err != nil {
			return err
		}
		t.emit(r.event(t.now))
		// The workflow has ended, so there is nothing to notify.
		_, err = t.Exec(ctx, `DELETE FROM outbox WHERE run_id = ?`, id)
		return err
	})
}

// change runs fn on a locked run and stores the changes. If fn changes only
// rows beside the run, fn raises the version. change checks the token first,
// and bumps the versions of the token's groups and of the run's groups. fn may
// request locks on other runs by needLocksError; change then calls fn again
// with them locked.
func (s *Store) change(
	ctx context.Context, doing string, id run.ID, token run.Token, fn func(t *tx, r *runRow) error,
) error {
	return s.withRunLocks(ctx, doing, func(t *tx, preempted []run.ID) error {
		groups, err := t.lockRunsWithGroups(ctx, append(preempted, id))
		if err != nil {
			return err
		}
		prev := locksOf(t).runs[id]
		if prev == nil {
			return runNotFound(id)
		}
		if err := t.lockGroups(ctx, append(groups, token.Groups()...)); err != nil {
			return err
		}
		if err := t.checkToken(token); err != nil {
			return err
		}
		r := prev.clone()
		if err := fn(t, r); err != nil {
			return err
		}
		changed := r.version != prev.version || r.phase != prev.phase || r.admitted != prev.admitted || r.stopRequested != prev.stopRequested
		if !changed && token == nil {
			return nil
		}
		own, err := t.groupsOf(ctx, r)
		if err != nil {
			return err
		}
		t.bumpVersions(append(own, token.Groups()...)...)
		if !changed {
			return nil
		}
		r.version = prev.version
		return t.saveRun(ctx, prev, r)
	})
}

// closeTasks makes all unfinished tasks final with the status and reason of
// end.
func (t *tx) closeTasks(ctx context.Context, r *runRow, tasks []taskRow, end func(*taskRow) (run.Status, string)) error {
	var changed []*taskRow
	for i := range tasks {
		x := &tasks[i]
		if x.status.Final() {
			continue
		}
		prev := x.status
		x.status, x.reason = end(x)
		x.ended = t.now
		if err := x.closeSteps(t.now); err != nil {
			return err
		}
		r.counts.move(prev, x.status)
		changed = append(changed, x)
		t.emit(x.event(r, t.now))
	}
	return t.saveTasks(ctx, r.id, changed)
}

// closeSteps ends the running steps of a task that is final: no frame will end
// them.
func (t *taskRow) closeSteps(now int64) error {
	if t.steps == "" {
		return nil
	}
	var steps []run.StepResult
	if err := unmarshal(t.steps, &steps); err != nil {
		return err
	}
	for i := range steps {
		if steps[i].Status == run.StatusRunning {
			steps[i].Status, steps[i].Ended = run.StatusStopped, toTime(now)
			if t.status == run.StatusFailed {
				steps[i].Status = run.StatusFailed
			}
		}
	}
	var err error
	t.steps, err = marshal(steps)
	return err
}

func wrongPhase(r *runRow, why string) error {
	return run.Errorf(run.CodeWrongPhase, "run %s is %s: %s", r.id, r.phase, why)
}
