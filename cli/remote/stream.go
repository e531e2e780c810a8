package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// maxEvent bounds one server-sent event.
const maxEvent = 16 << 20

// errSilent is the cause of streams that were silent for too long.
var errSilent = errors.New("the stream is silent")

// errInterrupted is the cause of streams whose connection broke.
var errInterrupted = errors.New("the stream was cut off")

// EventQuery selects events, and has a callback for an unavailable gateway.
type EventQuery struct {
	Run   string
	Group string
	After int64
	// OnAvailability, if set, is called with the reason whenever the stream is interrupted,
	// and with nil when it is open again.
	OnAvailability func(error)
}

// Events yields events, oldest first and each once, and resumes broken streams.
// It ends with ctx, or with an error if the gateway refuses, or is unavailable
// for too long.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		after := q.After
		open := func(ctx context.Context) (*http.Response, error) {
			params := api.StreamEventsParams{Run: q.Run, Group: q.Group}
			if after > 0 { // 0 means the oldest event that exists
				params.After = &after
			}
			return c.api.StreamEvents(ctx, &params, acceptEvents)
		}
		for message, err := range c.stream(ctx, open, q.OnAvailability, false) {
			if err == nil && message.data == nil {
				// The position of a stream that has left out events, which a resumed one need not read again.
				after = max(after, message.position)
				continue
			}
			var e api.Event
			if err == nil {
				err = decodeEvent(message, &e)
			}
			if err == nil && e.Number <= after {
				continue // received before the connection broke
			}
			if !yield(e, err) || err != nil {
				return
			}
			after = e.Number
		}
	}
}

// LogQuery selects a log, like run.LogQuery.
type LogQuery struct {
	Run     string
	Task    string
	Attempt int    // 0: the newest
	Step    string // a number from 0, or "setup"; "": all
	Offset  int64
	Streams []string // nil: all but the output of services
	Since   string   // a time, or an age; "": from the beginning
	Tail    *int     // number of last lines; nil: all
	Follow  bool
	// NoRetry makes an unavailable gateway an error without retries.
	NoRetry        bool
	OnAvailability func(error) // see EventQuery
}

// Log yields the chunks of a log up to its end, each byte once. Like Events, it
// resumes broken streams.
func (c *Client) Log(ctx context.Context, q LogQuery) iter.Seq2[api.LogChunk, error] {
	return func(yield func(api.LogChunk, error) bool) {
		offset := q.Offset
		params := api.GetTaskLogsParams{Step: q.Step, Stream: q.Streams, Follow: q.Follow, Since: q.Since, Tail: q.Tail}
		if q.Attempt > 0 {
			params.Attempt = &q.Attempt
		}
		// The first start event has the offset of the requested log. A resumed
		// stream starts from an offset, and must not request the last lines again.
		offsetKnown := q.Since == "" && q.Tail == nil
		setOffset := func(at int64) {
			if !offsetKnown {
				offset, offsetKnown, params.Since, params.Tail = at, true, "", nil
			}
		}
		open := func(ctx context.Context) (*http.Response, error) {
			if offsetKnown {
				params.Offset = &offset
			}
			return c.api.GetTaskLogs(ctx, q.Run, q.Task, &params, acceptEvents)
		}
		for message, err := range c.stream(ctx, open, q.OnAvailability, q.NoRetry) {
			if err == nil && message.name == "end" {
				return
			}
			if err == nil && message.data == nil {
				continue
			}
			var chunk api.LogChunk
			if err == nil {
				err = decodeEvent(message, &chunk)
			}
			if err != nil {
				yield(chunk, err)
				return
			}
			setOffset(chunk.Offset)
			if seen := offset - chunk.Offset; seen > 0 {
				chunk.Data = chunk.Data[min(seen, int64(len(chunk.Data))):]
				chunk.Offset = offset
			}
			if len(chunk.Data) == 0 {
				continue
			}
			if !yield(chunk, nil) {
				return
			}
			offset = chunk.Offset + int64(len(chunk.Data))
		}
	}
}

// searchPage is how many lines of a search one answer has at most.
const searchPage = 1000

// SearchLog yields the lines of a log, as it is now, that have a text. Of the query it
// uses what selects a log: offset, since, tail and follow are not for a search.
func (c *Client) SearchLog(ctx context.Context, q LogQuery, text string) iter.Seq2[api.LogMatch, error] {
	return func(yield func(api.LogMatch, error) bool) {
		params := api.SearchTaskLogParams{Text: text, Step: q.Step, Stream: q.Streams, Limit: searchPage}
		if q.Attempt > 0 {
			params.Attempt = &q.Attempt
		}
		for {
			page, err := call[api.LogMatches](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
				return c.api.SearchTaskLog(ctx, q.Run, q.Task, &params)
			})
			if err != nil {
				yield(api.LogMatch{}, err)
				return
			}
			for _, m := range page.Value.Matches {
				if !yield(m, nil) {
					return
				}
			}
			if params.Cursor = page.Value.Next; params.Cursor == "" {
				return
			}
		}
	}
}

// TaskPage returns the URL of a task's page in the web UI.
func (c *Client) TaskPage(id, task string, query url.Values) string {
	page := strings.TrimSuffix(c.opts.Server, "/") + "/runs/" + url.PathEscape(id) + "/tasks/" + url.PathEscape(task)
	if len(query) == 0 {
		return page
	}
	return page + "?" + query.Encode()
}

func acceptEvents(_ context.Context, req *http.Request) error {
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Del("Last-Event-ID") // the parameters have the start position
	return nil
}

func decodeEvent(m message, v any) error {
	if err := json.Unmarshal(m.data, v); err != nil {
		return &run.Error{Code: run.CodeInternal, Message: "the server sent an event that cannot be read", Err: err}
	}
	return nil
}

// message is one server-sent event, a position without an event, or a comment.
type message struct {
	name     string
	data     []byte // nil if it is no event
	position int64  // the number in the ID; 0 if there is none
}

// stream yields the events of a stream, and reopens a broken stream.
func (c *Client) stream(
	ctx context.Context, open func(context.Context) (*http.Response, error), onAvailability func(error), noRetry bool,
) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		p := c.newRetryBudget()
		lost := false
		note := func(err error) {
			if onAvailability != nil && (err != nil || lost) {
				onAvailability(err)
			}
			lost = err != nil
		}
		for {
			goOn, err := c.readStream(ctx, open, streamCallbacks{
				opened: func() { note(nil) }, alive: p.progress, message: func(m message) bool { return yield(m, nil) },
			})
			if !goOn {
				return
			}
			if ctx.Err() == nil && temporary(err) && !noRetry {
				note(err)
				if p.wait(ctx) {
					continue
				}
			}
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			yield(message{}, err)
			return
		}
	}
}

// streamCallbacks are callbacks for signs of life of a stream.
type streamCallbacks struct {
	opened  func()
	alive   func() // a comment or a message; an open connection alone is no sign of life
	message func(message) bool
}

// readStream reads a stream until it breaks, and returns the reason; goOn is false if
// the consumer has stopped.
func (c *Client) readStream(parent context.Context, open func(context.Context) (*http.Response, error), on streamCallbacks) (goOn bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	watchdog := time.AfterFunc(c.opts.Silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	resp, err := open(ctx)
	if err != nil {
		return true, c.unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
		if err != nil {
			return true, c.unreachable(ctx, err)
		}
		return true, c.statusError(resp, body)
	}
	on.opened()
	reader := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		watchdog.Reset(c.opts.Silence)
		m, err := readMessage(reader)
		if err != nil {
			return true, c.unreachable(ctx, err)
		}
		if m.name == "problem" {
			var p api.Problem
			if err := decodeEvent(m, &p); err != nil {
				return true, err
			}
			err := problemError(p)
			if run.CodeOf(err) == run.CodeTokenExpired && c.opts.TokenSource != nil {
				err = &run.Error{Code: run.CodeUnavailable, Message: err.Error() + ", and is renewed", Err: err} // by the next call
			}
			return true, err
		}
		on.alive()
		if (m.data != nil || m.position > 0) && !on.message(m) {
			return false, nil
		}
	}
}

// readMessage reads the next message. A comment has neither data nor a position.
func readMessage(r *bufio.Reader) (message, error) {
	var m message
	for {
		line, err := readLine(r)
		if err != nil {
			return m, err
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			return m, nil
		case string(field) == "event":
			m.name = string(value)
		case string(field) == "id":
			m.position, _ = strconv.ParseInt(string(value), 10, 64)
		case string(field) == "data":
			if m.data != nil {
				m.data = append(m.data, '\n')
			}
			m.data = append(m.data, value...)
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) < maxEvent:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: an event is longer than %d bytes", errInterrupted, maxEvent)
		case errors.Is(err, io.EOF):
			return nil, errInterrupted
		case err != nil:
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
