package logs

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// ApplyFrames implements records.Store.
func (s *Store) ApplyFrames(ctx context.Context, b run.FrameBatch) error {
	if len(b.Frames) == 0 {
		return run.Errorf(run.CodeInvalid, "the batch has no frames")
	}
	return s.db.WriteFor(ctx, "store frames", b.Executor, func(t *sqldb.Tx) error {
		k := b.Key
		if err := checkFrameClaim(ctx, t, b); err != nil {
			return err
		}
		known, err := insertBatch(ctx, t, b)
		if err != nil || known {
			return err
		}
		t.MarkChanged(k.Run)
		observeFrames(t, b.Frames)
		if !changesState(b.Frames) {
			missed, err := wasOutOfContact(ctx, t, b)
			if err != nil || !missed {
				return err
			}
		}
		return applyFrames(ctx, t, b)
	})
}

// checkFrameClaim returns why frames of an executor are refused, nil if they are
// accepted.
func checkFrameClaim(ctx context.Context, t *sqldb.Tx, b run.FrameBatch) error {
	by, err := rows.ReadClaimant(ctx, t, b.Key)
	if err != nil || by.OwnedBy(b.Executor, "") {
		return err
	}
	set := ""
	if by.Set != "" {
		if set, err = rows.SetOf(ctx, t, b.Executor); err != nil {
			return err
		}
	}
	switch {
	case by.Executor == "":
		return run.Errorf(run.CodeNotFound, "%s is not claimed", b.Key)
	case !by.OwnedBy(b.Executor, set):
		return run.Errorf(run.CodeConflict, "%s was claimed by executor %s", b.Key, by.Executor)
	}
	return nil
}

// CheckFrames implements records.Store.
func (s *Store) CheckFrames(ctx context.Context, b run.FrameBatch) (known bool, err error) {
	if len(b.Frames) == 0 {
		return false, run.Errorf(run.CodeInvalid, "the batch has no frames")
	}
	err = s.db.ReadFor(ctx, "check frames", b.Executor, func(q sqldb.Querier) error {
		t := &sqldb.Tx{Querier: q, Dialect: &s.db.Dialect}
		if err := checkFrameClaim(ctx, t, b); run.CodeOf(err) == run.CodeConflict { // other executors do not learn whose claim it is
			return run.Errorf(run.CodeNotFound, "executor %s has no claim on task %s", b.Executor, b.Key)
		} else if err != nil {
			return err
		}
		end, err := readLogEnd(ctx, t, b.Key)
		if err != nil {
			return err
		}
		if known, err = checkFollows(ctx, t, b, &end); err != nil || known {
			return err
		}
		_, err = outputsWith(ctx, t, b.Key, outputsOf(b.Frames))
		return err
	})
	return known, err
}

// readLogEnd is the end of the stored log of a dispatch.
type logEnd struct {
	frame  int64 // number of the last frame; 0: none is stored
	packed bool
	// remaining is the rest of the budget; not valid means that there is no bound.
	remaining sql.NullInt64
}

func readLogEnd(ctx context.Context, t *sqldb.Tx, k run.Key) (e logEnd, err error) {
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
func checkFollows(ctx context.Context, t *sqldb.Tx, b run.FrameBatch, e *logEnd) (known bool, err error) {
	k, first, last := b.Key, b.Frames[0].N, b.Frames[len(b.Frames)-1].N
	switch {
	case last <= e.frame:
		return true, nil
	case first <= e.frame:
		return false, run.Errorf(run.CodeInvalid, "frames %d to %d of %s come in other bounds than before: %d is stored", first, last, k, e.frame)
	case first > e.frame+1:
		if expired, err := Expired(ctx, t, k.Run, k.Task); err != nil || expired {
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
func insertBatch(ctx context.Context, t *sqldb.Tx, b run.FrameBatch) (known bool, err error) {
	k, first, last := b.Key, b.Frames[0].N, b.Frames[len(b.Frames)-1].N
	log, err := readLogEnd(ctx, t, k)
	if err != nil {
		return false, err
	}
	stored, packed := log.frame, log.packed
	if known, err = checkFollows(ctx, t, b, &log); err != nil || known {
		switch {
		case known && last <= stored: // sent again
			err = discardUnreferenced(ctx, t, k, first)
		case known: // too late for a log that has expired
			err = discard(ctx, t, records.GarbageBatch{Key: k, Frame: first})
		}
		return known, err
	}
	end := b.Frames[len(b.Frames)-1].Kind == run.FrameTaskEnd
	outline := run.OutlineOf(b.Frames)
	text, err := sqldb.Marshal(outline)
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
		return false, packNow(ctx, t, k)
	case first == 1 || packed:
		return false, packLater(ctx, t, k)
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
func wasOutOfContact(ctx context.Context, t *sqldb.Tx, b run.FrameBatch) (bool, error) {
	var ok bool
	k := b.Key
	err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM tasks WHERE run_id = ? AND number = ? AND attempt = ? AND dispatch = ?
		AND status = 'running' AND (reason <> '' OR executor <> ?))`, k.Run, k.Task, k.Attempt, k.Dispatch, b.Executor).Scan(&ok)
	return ok, err
}

// applyFrames writes the steps and outputs in frames of a task's newest
// dispatch, if the task is not final. Frames also show that its executor is in
// contact.
func applyFrames(ctx context.Context, t *sqldb.Tx, b run.FrameBatch) error {
	prev, err := rows.LockRun(ctx, t, b.Key.Run)
	if err != nil {
		return err
	}
	x, err := rows.TaskNumbered(ctx, t, b.Key.Run, b.Key.Task)
	if err != nil {
		return err
	}
	switch {
	case x.Attempt != b.Key.Attempt || x.Dispatch != b.Key.Dispatch:
		return nil
	case x.Status.Final():
		// An executor that lost the gateway completes the task first, and
		// appends frames later.
		return saveLateOutputs(ctx, t, prev, b)
	}
	var steps []run.StepResult
	if err := sqldb.Unmarshal(x.Steps, &steps); err != nil {
		return err
	}
	stage := run.LatestStage(steps)
	for _, f := range b.Frames {
		steps = stepsAfter(steps, f)
	}
	if outputs := outputsOf(b.Frames); len(outputs) > 0 {
		if err := saveOutputs(ctx, t, b.Key, outputs); err != nil {
			return err
		}
	}
	if x.Steps, err = sqldb.Marshal(steps); err != nil {
		return err
	}
	if x.Status == run.StatusRunning && (x.Reason != "" || x.Executor != b.Executor) {
		x.Reason, x.Executor = "", b.Executor
		t.Emit(x.Event(prev, t.Now))
	}
	// The event of the end, which follows the last batch, makes one about its stages
	// superfluous.
	ends := b.Frames[len(b.Frames)-1].Kind == run.FrameTaskEnd
	if now := run.LatestStage(steps); x.Status == run.StatusRunning && now != stage && !ends && run.StageChanges(steps) <= run.MaxStageEvents {
		e := x.Event(prev, t.Now)
		e.Type, e.Stage = run.EventStage, now
		t.Emit(e)
	}
	if _, err := t.Exec(ctx, `UPDATE tasks SET steps = ?, reason = ?, executor = ? WHERE run_id = ? AND number = ?`,
		x.Steps, x.Reason, x.Executor, b.Key.Run, x.Number); err != nil {
		return err
	}
	return rows.SaveRun(ctx, t, prev, prev.Clone())
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
		*step = run.StepResult{Status: run.StatusRunning, Stage: f.Stage, Started: f.Time}
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
func saveLateOutputs(ctx context.Context, t *sqldb.Tx, r *rows.Run, b run.FrameBatch) error {
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
	if err := saveOutputs(ctx, t, b.Key, outputs); err != nil {
		return err
	}
	return rows.SaveRun(ctx, t, r, r.Clone())
}

// outputsWith returns the outputs of a dispatch merged with more outputs.
// Errors: too_large.
func outputsWith(ctx context.Context, t *sqldb.Tx, k run.Key, more map[string]string) (map[string]string, error) {
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
	if err := sqldb.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	maps.Copy(all, more)
	return all, run.CheckOutputs(all)
}

// saveOutputs adds outputs to those of the dispatch.
func saveOutputs(ctx context.Context, t *sqldb.Tx, k run.Key, outputs map[string]string) error {
	all, err := outputsWith(ctx, t, k, outputs)
	if err != nil {
		return err
	}
	text, err := sqldb.Marshal(all)
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
	err := s.db.Read(ctx, "list the log of a task", func(q sqldb.Querier) error {
		out = nil
		if attempt == 0 {
			x, err := rows.TaskNumbered(ctx, q, id, task)
			if err != nil {
				return err
			}
			attempt = x.Attempt
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
func queryBatches(ctx context.Context, q sqldb.Querier, where string, args ...any) (out []records.Batch, err error) {
	err = sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
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
			if err := sqldb.Unmarshal(outline, b.Outline); err != nil {
				return err
			}
		}
		out = append(out, b)
		return nil
	}, `SELECT run_id, task, attempt, dispatch, first_frame, last_frame, task_end, source_run, source_task, packed, bytes, outline
		FROM log_batches WHERE `+where+` ORDER BY run_id, task, attempt, dispatch, first_frame`, args...)
	return out, err
}

// observeFrames reports a batch that was stored for the first time.
func observeFrames(t *sqldb.Tx, frames []run.Frame) {
	output, lag := false, time.Duration(0)
	for _, f := range frames {
		if f.Kind == run.FrameOutput && f.Stream.Service() == "" { // that of services is read at the end of the task
			output, lag = true, max(0, sqldb.ToTime(t.Now).Sub(f.Time))
			break
		}
	}
	t.Observe(func(o records.Observer) { o.FramesStored(len(frames), output, lag) })
}
