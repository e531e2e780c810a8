package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/run"
)

const mediaEvents = "text/event-stream"

// streamedKey marks streaming requests, whose duration is not measured.
const streamedKey = "drover.streamed"

// streamBuffer is how many items are read ahead of a slow client: enough to flush
// a replay in large writes.
const streamBuffer = 64

// wantsEvents reports whether the client asks for server-sent events.
func wantsEvents(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			media, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(media), mediaEvents) {
				return true
			}
		}
	}
	return false
}

// streamWriter writes a streaming response. Each write has its own deadline.
type streamWriter struct {
	response *echo.Response
	control  *http.ResponseController
	timeout  time.Duration
}

// startStream begins a streaming response and sends its header immediately.
func (s *Server) startStream(c echo.Context, media string) (*streamWriter, error) {
	return s.startStreamStatus(c, http.StatusOK, media)
}

func (s *Server) startStreamStatus(c echo.Context, status int, media string) (*streamWriter, error) {
	c.Set(streamedKey, true)
	w := &streamWriter{response: c.Response(), control: http.NewResponseController(c.Response()), timeout: s.opts.WriteTimeout}
	// The read timeout of the request would also end the response.
	if err := w.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	w.response.Header().Set("Content-Type", media)
	w.response.Header().Set("X-Accel-Buffering", "no") // proxies must not buffer it
	if err := w.extend(); err != nil {
		return nil, err
	}
	w.response.WriteHeader(status)
	return w, w.flush()
}

// send writes and flushes.
func (w *streamWriter) send(data []byte) error {
	if err := w.write(data); err != nil {
		return err
	}
	return w.flush()
}

func (w *streamWriter) extend() error {
	err := w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return wrapWriteError(err)
}

// write writes without flushing.
func (w *streamWriter) write(data []byte) error {
	if err := w.extend(); err != nil {
		return err
	}
	_, err := w.response.Write(data)
	return wrapWriteError(err)
}

func (w *streamWriter) flush() error {
	if err := w.extend(); err != nil {
		return err
	}
	return wrapWriteError(w.control.Flush())
}

// wrapWriteError wraps an error of a write: the client disconnected or stopped reading,
// which is not a failure of the gateway.
func wrapWriteError(err error) error {
	if err == nil {
		return nil
	}
	return &run.Error{Code: run.CodeCanceled, Message: "the client stopped reading", Err: err}
}

// event writes one server-sent event. v is written as JSON, so it has no line
// breaks.
func (w *streamWriter) event(id int64, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.write(fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", id, name, data))
}

// position writes an id alone: clients that resume begin after it.
func (w *streamWriter) position(id int64) error { return w.write(fmt.Appendf(nil, "id: %d\n\n", id)) }

// comment writes and flushes a comment, which clients ignore.
func (w *streamWriter) comment(text string) error {
	if err := w.write([]byte(": " + text + "\n\n")); err != nil {
		return err
	}
	return w.flush()
}

// problem sends the error that ends an open event stream to its client.
func (w *streamWriter) problem(err error) error {
	data, marshalErr := json.Marshal(problemOf(err, http.MethodGet))
	if marshalErr != nil {
		return marshalErr
	}
	if err := w.write(fmt.Appendf(nil, "event: problem\ndata: %s\n\n", data)); err != nil {
		return err
	}
	return w.flush()
}

// item is a value or an error of a source.
type item[T any] struct {
	value T
	err   error
}

// streamItems sends the items of source, flushes when no further item is ready, and
// writes a comment when the stream is idle. It returns the error of source or of
// a write, or nil when source ends.
func streamItems[T any](
	ctx context.Context, w *streamWriter, idle time.Duration, source func(context.Context) iter.Seq2[T, error], send func(T) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	items := make(chan item[T], streamBuffer)
	go produce(ctx, source, items)
	defer func() {
		cancel(nil)
		for range items { // wait for the producer to end
		}
	}()
	ticker := time.NewTicker(idle)
	defer ticker.Stop()
	for {
		select {
		case it, more := <-items:
			if !more {
				return context.Cause(ctx)
			}
			if it.err != nil {
				return cmp.Or(context.Cause(ctx), it.err)
			}
			if err := send(it.value); err != nil {
				return err
			}
			if len(items) == 0 {
				if err := w.flush(); err != nil {
					return err
				}
			}
			ticker.Reset(idle)
		case <-ticker.C:
			if err := w.comment("still here"); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func produce[T any](ctx context.Context, source func(context.Context) iter.Seq2[T, error], items chan<- item[T]) {
	defer close(items)
	for value, err := range source(ctx) {
		select {
		case items <- item[T]{value: value, err: err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// streams tracks the open streaming responses. A shutdown ends them first,
// because it would else wait for them.
type streams struct {
	mu      sync.Mutex
	ended   bool
	last    int
	cancels map[int]context.CancelCauseFunc
}

func newStreams() *streams { return &streams{cancels: make(map[int]context.CancelCauseFunc)} }

// open returns a context for a stream. The context ends with its parent and with
// endAll. The caller must call closeStream.
func (s *streams) open(parent context.Context) (ctx context.Context, closeStream func()) {
	ctx, cancel := context.WithCancelCause(parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		cancel(errShutdown())
		return ctx, func() {}
	}
	s.last++
	id := s.last
	s.cancels[id] = cancel
	return ctx, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancels, id)
	}
}

// endAll ends all streams, including those opened later.
func (s *streams) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, cancel := range s.cancels {
		cancel(errShutdown())
	}
}
