package gateway

import (
	"context"
	"errors"
	"io"
	"iter"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// stepSetup is how clients name the log of a task's environment.
const stepSetup = "setup"

// GetTaskLogs implements ServerInterface.
func (s *Server) GetTaskLogs(c echo.Context, id api.RunID, task api.TaskName, params api.GetTaskLogsParams) error {
	q, err := logQuery(id, task, params)
	if err != nil {
		return err
	}
	ctx, closeStream := s.streams.open(c.Request().Context())
	defer closeStream()
	reader, err := s.runs.Logs(ctx, q)
	if err != nil {
		return err
	}
	defer s.closeLog(c, reader)
	defer s.metrics.stream(c.Path())()
	c.Response().Header().Set("Vary", "Accept")
	if wantsEvents(c.Request()) {
		return s.sendLogEvents(ctx, c, reader)
	}
	return s.sendLogText(ctx, c, reader)
}

func (s *Server) closeLog(c echo.Context, reader run.LogReader) {
	if err := reader.Close(); err != nil {
		s.logger.WarnContext(c.Request().Context(), "log not closed", "request_id", requestID(c), "error", err)
	}
}

// sendLogText sends each chunk as it comes.
func (s *Server) sendLogText(ctx context.Context, c echo.Context, reader run.LogReader) error {
	w, err := s.startStream(c, "text/plain; charset=utf-8")
	if err != nil {
		return err
	}
	for chunk, err := range logChunks(ctx, reader) {
		if err == nil {
			if err = w.write(chunk.Data); err == nil {
				err = w.flush()
			}
		}
		if err != nil {
			breakOff(c)
			if ctx.Err() != nil || run.CodeOf(err) == run.CodeCanceled {
				return nil
			}
			return err
		}
	}
	return nil
}

// sendLogEvents sends chunks as events whose id is the offset to go on from.
func (s *Server) sendLogEvents(ctx context.Context, c echo.Context, reader run.LogReader) error {
	w, err := s.startStream(c, mediaEvents)
	if err != nil {
		return err
	}
	next := int64(0)
	source := func(ctx context.Context) iter.Seq2[run.LogChunk, error] { return logChunks(ctx, reader) }
	err = relay(ctx, w, s.opts.Heartbeat, source, func(chunk run.LogChunk) error {
		next = chunk.Offset + int64(len(chunk.Data))
		return w.event(next, "log", viewLogChunk(chunk))
	})
	if err != nil {
		return endEvents(ctx, c, w, err)
	}
	if err := w.event(next, "end", struct{}{}); err != nil {
		return err
	}
	return w.flush()
}

// logChunks yields the chunks of a log to its end.
func logChunks(ctx context.Context, reader run.LogReader) iter.Seq2[run.LogChunk, error] {
	return func(yield func(run.LogChunk, error) bool) {
		for {
			chunk, err := reader.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}

func logQuery(id, task string, params api.GetTaskLogsParams) (run.LogQuery, error) {
	q := run.LogQuery{Run: run.ID(id), Task: task, Follow: params.Follow}
	if params.Attempt != nil {
		q.Attempt = *params.Attempt
	}
	if params.Offset != nil {
		q.Offset = *params.Offset
	}
	if params.LastEventID != "" {
		offset, err := lastEventID(params.LastEventID)
		if err != nil {
			return q, err
		}
		q.Offset = offset
	}
	if params.Step == "" {
		return q, nil
	}
	step, err := parseStep(params.Step)
	q.Step = &step
	return q, err
}

func parseStep(text string) (int, error) {
	if text == stepSetup {
		return run.SetupStep, nil
	}
	step, err := strconv.Atoi(text)
	if err != nil || step < 0 {
		detail := "step must be the number of a step, from 0, or setup, not " + strconv.Quote(text)
		return 0, run.InvalidError(detail, []run.Fault{{Path: "step", Code: run.CodeInvalid, Detail: detail}})
	}
	return step, nil
}

func viewLogChunk(chunk run.LogChunk) api.LogChunk {
	return api.LogChunk{
		Offset: chunk.Offset, Time: chunk.Time.UTC(), Step: chunk.Step,
		Stream: api.LogChunkStream(chunk.Stream), Data: chunk.Data,
	}
}
