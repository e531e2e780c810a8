package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"maps"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// ApplyFrames implements records.Store.
func (s *Store) ApplyFrames(ctx context.Context, b run.FrameBatch) error {
	if len(b.Frames) == 0 {
		return run.Errorf(run.CodeInvalid, "the batch has no frames")
	}
	return s.writeFor(ctx, "store frames", b.Executor, func(t *tx) error {
		k := b.Key
		if err := t.checkFrameClaim(ctx, b); err != nil {
			return err
		}
		known, err := t.insertBatch(ctx, b)
		if err != nil || known {
			return err
		}
		t.markChanged(k.Run)
		t.observeFrames(b.Frames)
		if !changesState(b.Frames) {
			missed, err := t.wasOutOfContact(ctx, b)
			if err != nil || !missed {
				return err
			}
		}
		return t.applyFrames(ctx, b)
	})
}

// checkFrameClaim returns why frames of an executor are refused, nil if they are
// accepted.
func (t *tx) checkFrameClaim(ctx context.Context, b run.FrameBatch) error {
	by, err := t.claimant(ctx, b.Key)
	if err != nil || by.ownedBy(b.Executor, "") {
		return err
	}
	set := ""
	if by.set != "" {
		if set, err = setOf(ctx, t, b.Executor); err != nil {
			return err
		}
	}
	switch {
	case by.executor == "":
		return run.Errorf(run.CodeNotFound, "%s is not claimed", b.Key)
	case !by.ownedBy(b.Executor, set):
		return run.Errorf(run.CodeConflict, "%s was claimed by executor %s", b.Key, by.executor)
	}
	return nil
}

// CheckFrames implements records.Store.
func (s *Store) CheckFrames(ctx context.Context, b run.FrameBatch) (known bool, err error) {
	if len(b.Frames) == 0 {
		return false, run.Errorf(run.CodeInvalid, "the batch has no frames")
	}
	err = s.readFor(ctx, "check frames", b.Executor, func(q Querier) error {
		t := &tx{Querier: q, dialect: &s.dialect}
		if err := t.checkFrameClaim(ctx, b); run.CodeOf(err) == run.CodeConflict { // other executors do not learn whose claim it is
			return run.Errorf(run.CodeNotFound, "executor %s has no claim on task %s", b.Executor, b.Key)
		} else if err != nil {
			return err
		}
		end, err := t.logEnd(ctx, b.Key)
		if err != nil {
			return err
		}
		if known, err = t.checkFollows(ctx, b, &end); err != nil || known {
			return err
		}
		_, err = t.outputsWith(ctx, b.Key, outputsOf(b.Frames))
		return err
	})
	return known, err
}

// logEnd is the end of the stored log of a dispatch.
type logEnd struct {
	frame  int64 // number of the last frame; 0: none is stored
	packed bool
	// remaining is the rest of the budget; not valid means that there is no bound.
	remaining sql.NullInt64
}

func (t *tx) logEnd(ctx context.Context, k run.Key) (e logEnd, err error) {
	err = t.QueryRow(ctx, `SELECT last_frame, packed, remaining FROM log_batches WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?
		ORDER BY first_frame DESC LIMIT 1`, k.Run, k.Task, k.Attempt, k.Dispatch).Scan(&e.frame, &e.packed, &e.remaining)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return e, err
}

// checkFollows checks that a batch follows the end of its log, and subtracts its
// cost from the log's remaining budget. known reports that the batch is stored
// already, or came too late.
func (t *tx) checkFollows(ctx context.Context, b run.FrameBatch, e *logEnd) (known bool, err error) {
	k, first, last := b.Key, b.Frames[0].N, b.Frames[len(b.Frames)-1].N
	switch {
	case last <= e.frame:
		return true, nil
	case first <= e.frame:
		return false, run.Errorf(run.CodeInvalid, "frames %d to %d of %s come in other bounds than before: %d is stored", first, last, k, e.frame)
	case first > e.frame+1:
		if expired, err := logsExpired(ctx, t, k.Run, k.Task); err != nil || expired {
			return expired, err
		}
		return false, run.Errorf(run.CodeInvalid, "frames %d to %d of %s leave out those from %d on", first, last, k, e.frame+1)
	case e.frame == 0:
		e.remaining = sql.NullInt64{Int64: b.Budget, Valid: b.Budget > 0}
	}
	if e.remaining.Valid {
		if e.remaining.Int64 -= run.LogCost(b.Frames); e.remaining.Int64 < 0 {
			return false, run.Errorf(run.CodeTooLarge, "the log of %s is %d bytes over its limit", k, -e.remaining.Int64)
		}
	}
	return false, nil
}

// insertBatch records a batch. known reports that it was recorded before.
func (t *tx) insertBatch(ctx context.Context, b run.FrameBatch) (known bool, err error) {
	k, first, last := b.Key, b.Frames[0].N, b.Frames[len(b.Frames)-1].N
	log, err := t.logEnd(ctx, k)
	if err != nil {
		return false, err
	}
	stored, packed := log.frame, log.packed
	if known, err = t.checkFollows(ctx, b, &log); err != nil || known {
		switch {
		case known && last <= stored: // sent again
			err = t.discardUnreferenced(ctx, k, first)
		case known: // too late for a log that has expired
			err = t.discard(ctx, records.GarbageBatch{Key: k, Frame: first})
		}
		return known, err
	}
	end := b.Frames[len(b.Frames)-1].Kind == run.FrameTaskEnd
	outline := run.OutlineOf(b.Frames)
	text, err := marshal(outline)
	if err != nil {
		return false, err
	}
	done, err := t.Exec(ctx, `INSERT INTO log_batches (run_id, task, attempt, dispatch, first_frame, last_frame, task_end, bytes, outline, remaining)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, k.Run, k.Task, k.Attempt, k.Dispatch, first, last, end, b.Stored, text, log.remaining)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	if err != nil || n == 0 {
		return true, err // 0: the same batch was sent twice at the same time
	}
	switch {
	case end && first == 1 && outline.Bytes() <= run.CompactThreshold:
		return false, nil
	case end:
		return false, t.packNow(ctx, k)
	case first == 1 || packed:
		return false, t.packLater(ctx, k)
	}
	return false, nil
}

// changesState reports whether frames change more than the log: steps or outputs.
func changesState(frames []run.Frame) bool {
	for _, f := range frames {
		switch f.Kind {
		case run.FrameStepStart, run.FrameStepEnd, run.FrameOutputs:
			return true
		case run.FrameOutput, run.FrameArchiveRequest, run.FrameTaskEnd:
		}
	}
	return false
}

// wasOutOfContact reports whether a running task has a reason: its executor was out of
// contact, the only reason that a running task can have. It also returns true
// if another member of the executor's set sent the frames.
func (t *tx) wasOutOfContact(ctx context.Context, b run.FrameBatch) (bool, error) {
	var ok bool
	k := b.Key
	err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM tasks WHERE run_id = ? AND number = ? AND attempt = ? AND dispatch = ?
		AND status = 'running' AND (reason <> '' OR executor <> ?))`, k.Run, k.Task, k.Attempt, k.Dispatch, b.Executor).Scan(&ok)
	return ok, err
}

// applyFrames writes the steps and outputs in frames of a task's newest
// dispatch, if the task is not final. Frames also show that its executor is in
// contact.
func (t *tx) applyFrames(ctx context.Context, b run.FrameBatch) error {
	prev, err := t.lockRun(ctx, b.Key.Run)
	if err != nil {
		return err
	}
	x, err := taskNumbered(ctx, t, b.Key.Run, b.Key.Task)
	if err != nil {
		return err
	}
	switch {
	case x.attempt != b.Key.Attempt || x.dispatch != b.Key.Dispatch:
		return nil
	case x.status.Final():
		// An executor that lost the gateway completes the task first, and
		// appends frames later.
		return t.saveLateOutputs(ctx, prev, b)
	}
	var steps []run.StepResult
	if err := unmarshal(x.steps, &steps); err != nil {
		return err
	}
	for _, f := range b.Frames {
		steps = stepsAfter(steps, f)
	}
	if outputs := outputsOf(b.Frames); len(outputs) > 0 {
		if err := t.saveOutputs(ctx, b.Key, outputs); err != nil {
			return err
		}
	}
	if x.steps, err = marshal(steps); err != nil {
		return err
	}
	if x.status == run.StatusRunning && (x.reason != "" || x.executor != b.Executor) {
		x.reason, x.executor = "", b.Executor
		t.emit(x.event(prev, t.now))
	}
	if _, err := t.Exec(ctx, `UPDATE tasks SET steps = ?, reason = ?, executor = ? WHERE run_id = ? AND number = ?`,
		x.steps, x.reason, x.executor, b.Key.Run, x.number); err != nil {
		return err
	}
	return t.saveRun(ctx, prev, prev.clone())
}

// stepsAfter returns the states of steps after a frame.
func stepsAfter(steps []run.StepResult, f run.Frame) []run.StepResult {
	if f.Kind != run.FrameStepStart && f.Kind != run.FrameStepEnd || f.Step < 0 || f.Step >= run.MaxSteps {
		return steps
	}
	for len(steps) <= f.Step {
		steps = append(steps, run.StepResult{Status: run.StatusNotStarted})
	}
	step := &steps[f.Step]
	if f.Kind == run.FrameStepStart {
		*step = run.StepResult{Status: run.StatusRunning, Started: f.Time}
		return steps
	}
	step.Status, step.ExitCode, step.TimedOut, step.Ended = f.Status, f.ExitCode, f.TimedOut, f.Time
	return steps
}

// outputsOf returns the outputs in frames.
func outputsOf(frames []run.Frame) map[string]string {
	outputs := make(map[string]string)
	for _, f := range frames {
		if f.Kind == run.FrameOutputs {
			maps.Copy(outputs, f.Outputs)
		}
	}
	return outputs
}

// saveLateOutputs saves the outputs of a task that is final, unless its last frame
// came before. All else is in its result.
func (t *tx) saveLateOutputs(ctx context.Context, r *runRow, b run.FrameBatch) error {
	outputs := outputsOf(b.Frames)
	if len(outputs) == 0 {
		return nil
	}
	var complete bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM log_batches
		WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND first_frame < ? AND task_end)`,
		b.Key.Run, b.Key.Task, b.Key.Attempt, b.Key.Dispatch, b.Frames[0].N).Scan(&complete); err != nil || complete {
		return err
	}
	if err := t.saveOutputs(ctx, b.Key, outputs); err != nil {
		return err
	}
	return t.saveRun(ctx, r, r.clone())
}

// outputsWith returns the outputs of a dispatch merged with more outputs.
// Errors: too_large.
func (t *tx) outputsWith(ctx context.Context, k run.Key, more map[string]string) (map[string]string, error) {
	if len(more) == 0 {
		return nil, nil
	}
	var text string
	err := t.QueryRow(ctx, `SELECT outputs FROM task_outputs WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?`,
		k.Run, k.Task, k.Attempt, k.Dispatch).Scan(&text)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	all := make(map[string]string)
	if err := unmarshal(text, &all); err != nil {
		return nil, err
	}
	maps.Copy(all, more)
	return all, run.CheckOutputs(all)
}

// saveOutputs adds outputs to those of the dispatch.
func (t *tx) saveOutputs(ctx context.Context, k run.Key, outputs map[string]string) error {
	all, err := t.outputsWith(ctx, k, outputs)
	if err != nil {
		return err
	}
	text, err := marshal(all)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, `INSERT INTO task_outputs (run_id, task, attempt, dispatch, outputs) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (run_id, task) DO UPDATE SET attempt = excluded.attempt, dispatch = excluded.dispatch, outputs = excluded.outputs`,
		k.Run, k.Task, k.Attempt, k.Dispatch, text)
	return err
}

// Batches implements records.Store.
func (s *Store) Batches(ctx context.Context, id run.ID, task, attempt int, after records.BatchRef) ([]records.Batch, error) {
	var out []records.Batch
	err := s.read(ctx, "list the log of a task", func(q Querier) error {
		out = nil
		if attempt == 0 {
			x, err := taskNumbered(ctx, q, id, task)
			if err != nil {
				return err
			}
			attempt = x.attempt
		}
		dispatch := 0
		if after.Key.Attempt == attempt {
			dispatch = after.Key.Dispatch
		}
		var err error
		out, err = queryBatches(ctx, q, `run_id = ? AND task = ? AND attempt = ? AND dispatch >= ? AND (dispatch > ? OR last_frame > ?)`,
			id, task, attempt, dispatch, dispatch, after.Last)
		return err
	})
	return out, err
}

// queryBatches returns batches in order.
func queryBatches(ctx context.Context, q Querier, where string, args ...any) (out []records.Batch, err error) {
	err = each(ctx, q, func(row scanner) error {
		var b records.Batch
		var source run.ID
		var task int
		var outline string
		if err := row.Scan(&b.Key.Run, &b.Key.Task, &b.Key.Attempt, &b.Key.Dispatch, &b.First, &b.Last, &b.End, &source, &task,
			&b.Packed, &b.Bytes, &outline); err != nil {
			return err
		}
		if b.Source = b.Key; source != "" {
			b.Source.Run, b.Source.Task = source, task
		}
		if outline != "" {
			b.Outline = new(run.LogOutline)
			if err := unmarshal(outline, b.Outline); err != nil {
				return err
			}
		}
		out = append(out, b)
		return nil
	}, `SELECT run_id, task, attempt, dispatch, first_frame, last_frame, task_end, source_run, source_task, packed, bytes, outline
		FROM log_batches WHERE `+where+` ORDER BY run_id, task, attempt, dispatch, first_frame`, args...)
	return out, err
}
