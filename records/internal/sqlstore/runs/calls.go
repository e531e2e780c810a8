package runs

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// StartRun implements records.Store.
func (s *Store) StartRun(ctx context.Context, id run.ID, token run.Token) error {
	return s.change(ctx, "start a run", id, token, func(t *sqldb.Tx, r *rows.Run) error {
		switch {
		case r.Phase != run.PhaseQueued:
			return rows.WrongPhase(r, "only a queued run can be started")
		case r.Admission != run.AdmissionManual:
			return rows.WrongPhase(r, "it starts automatically")
		case r.Admitted:
			return nil // it waits for its change groups
		}
		groups, err := changegroups.GroupsOf(ctx, t, r)
		if err != nil {
			return err
		}
		if err := changegroups.CheckStoredCircle(ctx, t, r); err != nil {
			return err
		}
		admitted, err := changegroups.TryAdmit(ctx, t, groups, changegroups.KeyOfRun(id, r.Priority, t.Now))
		if err != nil {
			return err
		}
		r.Admitted = true
		if !admitted {
			if err := changegroups.SetSlotState(ctx, t, id, changegroups.SlotWaiting, t.Now); err != nil {
				return err
			}
			return recordAction(ctx, t, r, run.ActionStart)
		}
		if err := changegroups.AdmitRun(ctx, t, r); err != nil {
			return err
		}
		if err := recordAction(ctx, t, r, run.ActionStart); err != nil {
			return err
		}
		return t.Enqueue(ctx, id, records.OutboxAdmit, 0)
	})
}

// CancelRun implements records.Store.
func (s *Store) CancelRun(ctx context.Context, id run.ID, token run.Token) error {
	return s.change(ctx, "cancel a run", id, token, func(t *sqldb.Tx, r *rows.Run) error {
		if r.Phase != run.PhaseQueued {
			return rows.WrongPhase(r, "only a queued run can be cancelled")
		}
		return cancel(ctx, t, r)
	})
}

// cancel cancels a queued run.
func cancel(ctx context.Context, t *sqldb.Tx, r *rows.Run) error {
	if err := changegroups.Cancel(ctx, t, r, ""); err != nil {
		return err
	}
	return recordAction(ctx, t, r, run.ActionCancel)
}

// StopRun implements records.Store.
func (s *Store) StopRun(ctx context.Context, id run.ID, token run.Token) error {
	return s.change(ctx, "stop a run", id, token, func(t *sqldb.Tx, r *rows.Run) error {
		if r.Phase != run.PhaseRunning {
			return rows.WrongPhase(r, "only a running run can be stopped")
		}
		return stop(ctx, t, r, false)
	})
}

// ForceStopRun implements records.Store.
func (s *Store) ForceStopRun(ctx context.Context, id run.ID, token run.Token) error {
	return s.change(ctx, "force the stop of a run", id, token, func(t *sqldb.Tx, r *rows.Run) error {
		if r.Phase != run.PhaseRunning {
			return rows.WrongPhase(r, "only a running run can be stopped")
		}
		return stop(ctx, t, r, true)
	})
}

// EndRun implements records.Store.
func (s *Store) EndRun(ctx context.Context, id run.ID, token run.Token, force bool) (run.ActionKind, error) {
	var done run.ActionKind
	err := s.change(ctx, "end a run", id, token, func(t *sqldb.Tx, r *rows.Run) error {
		switch r.Phase {
		case run.PhaseQueued:
			done = run.ActionCancel
			return cancel(ctx, t, r)
		case run.PhaseRunning:
			done = run.ActionStop
			return stop(ctx, t, r, force)
		default:
			return rows.WrongPhase(r, "only a queued or running run can be stopped")
		}
	})
	if err != nil {
		return "", err
	}
	return done, nil
}

// stop stops a running run. Without force, it changes nothing if the run is being
// stopped.
func stop(ctx context.Context, t *sqldb.Tx, r *rows.Run, force bool) error {
	kind := records.OutboxStop
	switch {
	case force:
		r.Version++ // also if a stop was requested before
		kind = records.OutboxForceStop
	case r.StopRequested:
		return nil
	}
	r.StopRequested = true
	if err := recordAction(ctx, t, r, run.ActionStop); err != nil {
		return err
	}
	return t.Enqueue(ctx, r.ID, kind, 0)
}

// Annotate implements records.Store.
func (s *Store) Annotate(ctx context.Context, id run.ID, task string, annotations map[string]string, token run.Token) error {
	return s.change(ctx, "annotate a run", id, token, func(t *sqldb.Tx, r *rows.Run) error {
		text, err := sqldb.Marshal(annotations)
		if err != nil {
			return err
		}
		r.Version++
		if task != "" {
			x, err := rows.TaskNamed(ctx, t, id, task)
			if err != nil {
				return err
			}
			_, err = t.Exec(ctx, `UPDATE tasks SET annotations = ? WHERE run_id = ? AND number = ?`, text, id, x.Number)
			return err
		}
		var texts rows.DetailScan
		if err := t.QueryRow(ctx, `SELECT `+rows.DetailColumns+` FROM run_details d WHERE d.run_id = ?`, id).Scan(texts.Dest()...); err != nil {
			return err
		}
		details, err := texts.Parse()
		if err != nil {
			return err
		}
		if err := deleteNamed(ctx, t, `run_annotations`, id, details.Annotations); err != nil {
			return err
		}
		if err := insertNamed(ctx, t, `run_annotations`, id, annotations); err != nil {
			return err
		}
		_, err = t.Exec(ctx, `UPDATE run_details SET annotations = ? WHERE run_id = ?`, text, id)
		return err
	})
}

// CloseLost implements records.Store.
func (s *Store) CloseLost(ctx context.Context, id run.ID, reason string) error {
	reason = sqldb.Clip(reason)
	return s.change(ctx, "close a lost run", id, nil, func(t *sqldb.Tx, r *rows.Run) error {
		if r.Phase.Final() {
			return nil
		}
		r.Phase, r.Result, r.Reason, r.Ended = run.PhaseFinished, run.ResultFailed, reason, t.Now
		tasks, err := rows.QueryTasks(ctx, t, `run_id = ? ORDER BY number`, id)
		if err != nil {
			return err
		}
		if err := rows.CloseTasks(ctx, t, r, tasks, func(x *rows.Task) (run.Status, string) {
			if x.Status == run.StatusRunning || x.Attempt > 1 || x.Started != 0 {
				return run.StatusFailed, reason
			}
			return run.StatusSkipped, reason
		}); err != nil {
			return err
		}
		groups, err := changegroups.GroupsOf(ctx, t, r)
		if err != nil {
			return err
		}
		if err := changegroups.ReleaseSlots(ctx, t, id, groups); err != nil {
			return err
		}
		if err := changegroups.EndRunOfTasks(ctx, t, r); err != nil {
			return err
		}
		t.Emit(r.Event(t.Now))
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
	ctx context.Context, doing string, id run.ID, token run.Token, fn func(t *sqldb.Tx, r *rows.Run) error,
) error {
	return changegroups.WithRunLocks(ctx, s.db, doing, token, func(t *sqldb.Tx, preempted []run.ID, token run.Token) error {
		groups, err := changegroups.LockRunsWithGroups(ctx, t, append(preempted, id))
		if err != nil {
			return err
		}
		prev := changegroups.LocksOf(t).Runs[id]
		if prev == nil {
			return rows.RunNotFound(id)
		}
		if err := changegroups.LockGroups(ctx, t, groups, token); err != nil {
			return err
		}
		if err := changegroups.CheckToken(t, token); err != nil {
			return err
		}
		r := prev.Clone()
		if err := fn(t, r); err != nil {
			return err
		}
		changed := r.Version != prev.Version || r.Phase != prev.Phase || r.Admitted != prev.Admitted || r.StopRequested != prev.StopRequested
		if !changed && token == nil {
			return nil
		}
		own, err := changegroups.GroupsOf(ctx, t, r)
		if err != nil {
			return err
		}
		ofTasks, err := changegroups.GroupsOfTasks(ctx, t, r)
		if err != nil {
			return err
		}
		changegroups.BumpVersions(t, slices.Concat(own, ofTasks, token.Groups())...)
		if !changed {
			return nil
		}
		r.Version = prev.Version
		return rows.SaveRun(ctx, t, prev, r)
	})
}
