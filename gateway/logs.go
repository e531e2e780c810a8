package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/logscan"
	"github.com/drover-run/drover/run"
)

// stepSetup is the value of step that selects the log of a task's environment.
const stepSetup = "setup"

// GetTaskLogs implements ServerInterface.
func (s *Server) GetTaskLogs(c echo.Context, id api.RunID, task api.TaskName, params api.GetTaskLogsParams) error {
	q, err := logQuery(id, task, params, time.Now())
	if err != nil {
		return err
	}
	download, timestamps := params.Download != nil && *params.Download, params.Timestamps != nil && *params.Timestamps
	events := wantsEvents(c.Request()) && !download
	if events && timestamps {
		return invalidLog("timestamps", "timestamps are for plain text only: events always have times")
	}
	if events && params.Length != nil {
		return invalidLog("length", "a length is for plain text only")
	}
	ctx, closeStream := s.streams.open(c.Request().Context())
	defer closeStream()
	if q.Follow { // other logs end soon
		var stop func()
		ctx, stop = s.watcher.Watch(ctx, c)
		defer stop()
	}
	reader, err := s.runs.Logs(ctx, q)
	if err != nil {
		return err
	}
	defer s.closeLog(c, reader)
	defer s.metrics.trackStream(c.Path())()
	header := c.Response().Header()
	header.Set("Vary", "Accept")
	header.Set(headerLogOffset, strconv.FormatInt(reader.Offset(), 10))
	if events {
		return s.sendLogEvents(ctx, c, reader)
	}
	if download {
		header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": logFile(q)}))
	}
	length := int64(math.MaxInt64)
	if params.Length != nil {
		length = *params.Length
	}
	return s.sendLogText(ctx, c, reader, timestamps, length)
}

// headerLogOffset names the header with the offset at which a log begins.
const headerLogOffset = "Drover-Log-Offset"

// logFile returns the file name for a downloaded log.
func logFile(q run.LogQuery) string {
	name := fmt.Sprintf("%s-%s", q.Run, q.Task)
	if q.Attempt > 0 {
		name += fmt.Sprintf("-%d", q.Attempt)
	}
	if q.Step != nil {
		name += fmt.Sprintf(".step%d", *q.Step)
		if *q.Step == run.SetupStep {
			name = strings.TrimSuffix(name, fmt.Sprintf("step%d", *q.Step)) + stepSetup
		}
	}
	if len(q.Streams) == 1 && q.Streams[0].Service() != "" {
		name += ".service-" + q.Streams[0].Service()
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '-'
		}
		return r
	}, name) + ".log"
}

func (s *Server) closeLog(c echo.Context, reader run.LogReader) {
	if err := reader.Close(); err != nil {
		s.logger.WarnContext(c.Request().Context(), "failed to close log", "request_id", requestID(c), "error", err)
	}
}

// One call scans at most so much of a log, and begins to read nothing more after so long.
const (
	scanBytes = 128 << 20
	scanTime  = 5 * time.Second
)

// maxSearchText bounds the text of a search, in bytes.
const maxSearchText = 1000

// GetTaskLogIndex implements ServerInterface.
func (s *Server) GetTaskLogIndex(c echo.Context, id api.RunID, task api.TaskName, params api.GetTaskLogIndexParams) error {
	from, err := logPosition(params.Cursor)
	if err != nil {
		return err
	}
	end, err := s.scans.Begin(c.Request().Context(), subject(c))
	if err != nil {
		return err
	}
	defer end()
	reader, err := s.openLog(c, id, task, api.GetTaskLogsParams{Step: params.Step, Stream: params.Stream, Attempt: params.Attempt, Offset: &from.Offset})
	if err != nil {
		return err
	}
	defer s.closeLog(c, reader)
	x, err := logscan.Lines(c.Request().Context(), reader, from, cmp.Or(params.Every, 1000), scanBudget())
	end() // a client that reads the answer slowly keeps no turn
	if err != nil {
		return err
	}
	v := api.LogIndex{Lines: x.Lines, Bytes: x.Bytes, Offsets: append([]int64{}, x.Offsets...), Sections: make([]api.LogSection, len(x.Sections)), Next: cursor(x.Next)}
	for i, section := range x.Sections {
		v.Sections[i] = api.LogSection{Step: section.Step, Line: section.Line, Offset: section.Offset, Time: section.Time.UTC()}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// SearchTaskLog implements ServerInterface.
func (s *Server) SearchTaskLog(c echo.Context, id api.RunID, task api.TaskName, params api.SearchTaskLogParams) error {
	if n := len(params.Text); n == 0 || n > maxSearchText {
		return invalidLog("text", fmt.Sprintf("text must have 1 to %d bytes, not %d", maxSearchText, n))
	}
	from, err := logPosition(params.Cursor)
	if err != nil {
		return err
	}
	end, err := s.scans.Begin(c.Request().Context(), subject(c))
	if err != nil {
		return err
	}
	defer end()
	reader, err := s.openLog(c, id, task, api.GetTaskLogsParams{Step: params.Step, Stream: params.Stream, Attempt: params.Attempt, Offset: &from.Offset})
	if err != nil {
		return err
	}
	defer s.closeLog(c, reader)
	matches, next, err := logscan.Search(c.Request().Context(), reader, from, params.Text, cmp.Or(params.Limit, 1000), scanBudget())
	end() // a client that reads the answer slowly keeps no turn
	if err != nil {
		return err
	}
	v := api.LogMatches{Matches: make([]api.LogMatch, len(matches)), Next: cursor(next)}
	for i, m := range matches {
		v.Matches[i] = api.LogMatch{Step: m.Step, Line: m.Line, Offset: m.Offset, Text: m.Text}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

func scanBudget() logscan.Budget {
	return logscan.Budget{Bytes: scanBytes, Until: time.Now().Add(scanTime)}
}

func logPosition(text string) (logscan.Position, error) {
	p, err := logscan.ParsePosition(text)
	if err != nil {
		return p, invalidLog("cursor", "cursor must be the next of an index or a search of this log")
	}
	return p, nil
}

// cursor returns the text of a position, and "" for none.
func cursor(p *logscan.Position) string {
	if p == nil {
		return ""
	}
	return p.String()
}

func (s *Server) openLog(c echo.Context, id, task string, params api.GetTaskLogsParams) (run.LogReader, error) {
	q, err := logQuery(id, task, params, time.Now())
	if err != nil {
		return nil, err
	}
	return s.runs.Logs(c.Request().Context(), q)
}

// sendLogText sends each chunk as soon as it is read, up to a number of bytes of the
// log.
func (s *Server) sendLogText(ctx context.Context, c echo.Context, reader run.LogReader, timestamps bool, length int64) error {
	w, err := s.startStream(c, "text/plain; charset=utf-8")
	if err != nil {
		return err
	}
	var stamp stamper
	for chunk, err := range logChunks(ctx, reader) {
		if err == nil {
			data := chunk.Data[:min(int64(len(chunk.Data)), length)]
			length -= int64(len(data))
			if timestamps {
				data = stamp.lines(chunk.Time, data)
			}
			if err = w.write(data); err == nil {
				err = w.flush()
			}
			if err == nil && length == 0 {
				return nil
			}
		}
		if err != nil {
			abortResponse(c)
			if ctx.Err() != nil || run.CodeOf(err) == run.CodeCanceled {
				return nil
			}
			return err
		}
	}
	return nil
}

// sendLogEvents sends chunks as events. The id of an event is the offset from
// which to resume.
func (s *Server) sendLogEvents(ctx context.Context, c echo.Context, reader run.LogReader) error {
	w, err := s.startStream(c, mediaEvents)
	if err != nil {
		return err
	}
	next := reader.Offset()
	// Send it immediately: a client that is disconnected before the first chunk
	// must know from which offset to resume.
	if err := w.event(next, "start", api.LogStart{Offset: next}); err != nil {
		return endEvents(ctx, c, w, err)
	}
	if err := w.flush(); err != nil {
		return endEvents(ctx, c, w, err)
	}
	source := func(ctx context.Context) iter.Seq2[run.LogChunk, error] { return logChunks(ctx, reader) }
	err = streamItems(ctx, w, s.opts.Heartbeat, source, func(chunk run.LogChunk) error {
		next = chunk.Offset + int64(len(chunk.Data))
		return w.event(next, "log", viewLogChunk(chunk))
	})
	if err != nil {
		return endEvents(ctx, c, w, err)
	}
	if err := w.event(next, "end", api.LogEnd{Services: reader.Services()}); err != nil {
		return err
	}
	return w.flush()
}

// logChunks yields the chunks of a log up to its end.
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

func logQuery(id, task string, params api.GetTaskLogsParams, now time.Time) (run.LogQuery, error) {
	q := run.LogQuery{Run: run.ID(id), Task: task, Follow: params.Follow, Tail: params.Tail}
	if params.Attempt != nil {
		q.Attempt = *params.Attempt
	}
	if params.Offset != nil {
		q.Offset = *params.Offset
	}
	for _, stream := range params.Stream {
		if !run.Stream(stream).Valid() {
			return q, invalidLog("stream", "stream must be stdout, stderr, system, or service:NAME, not "+strconv.Quote(stream))
		}
		q.Streams = append(q.Streams, run.Stream(stream))
	}
	var err error
	if params.Since != "" {
		if q.Since, err = parseSince(params.Since, now); err != nil {
			return q, err
		}
	}
	if params.LastEventID != "" {
		if q.Offset, err = lastEventID(params.LastEventID); err != nil {
			return q, err
		}
		q.Tail, q.Since = nil, time.Time{}
	}
	if params.Step == "" {
		return q, nil
	}
	if slices.ContainsFunc(q.Streams, func(s run.Stream) bool { return s.Service() != "" }) {
		return q, invalidLog("stream", "the output of a service belongs to no step: leave out step")
	}
	step, err := parseStep(params.Step)
	q.Step = &step
	return q, err
}

// parseSince parses a time, or a duration before now.
func parseSince(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, invalidLog("since", "since must be a time like 2026-01-02T15:04:05Z, or a duration before now like 10m, not "+strconv.Quote(text))
	}
	return at, nil
}

func invalidLog(path, detail string) error {
	return run.InvalidError(detail, []run.Fault{{Path: path, Code: run.CodeInvalid, Detail: detail}})
}

func parseStep(text string) (int, error) {
	if text == stepSetup {
		return run.SetupStep, nil
	}
	step, err := strconv.Atoi(text)
	if err != nil || step < 0 {
		detail := "step must be the number of a step, from 0, or setup, not " + strconv.Quote(text)
		return 0, invalidLog("step", detail)
	}
	return step, nil
}

func viewLogChunk(chunk run.LogChunk) api.LogChunk {
	return api.LogChunk{
		Offset: chunk.Offset, Time: chunk.Time.UTC(), Step: chunk.Step,
		Stream: chunk.Stream, Data: chunk.Data,
	}
}

// stamper prefixes lines with times. A line that continues in another chunk has
// the time of its first chunk.
type stamper struct{ inside bool }

func (s *stamper) lines(at time.Time, data []byte) []byte {
	var out []byte
	for line := range bytes.Lines(data) {
		if !s.inside {
			out = append(at.UTC().AppendFormat(out, stampFormat), ' ')
		}
		out = append(out, line...)
		s.inside = !bytes.HasSuffix(line, []byte("\n"))
	}
	return out
}

// stampFormat is RFC 3339 with a fixed number of digits for nanoseconds.
const stampFormat = "2006-01-02T15:04:05.000000000Z07:00"
