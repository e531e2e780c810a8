package gateway

import (
	"context"
	"iter"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
)

// StreamEvents implements ServerInterface.
func (s *Server) StreamEvents(c echo.Context, params api.StreamEventsParams) error {
	q, err := eventQuery(params)
	if err != nil {
		return err
	}
	if q.Run != "" {
		if err := s.roles.InRun(c.Request().Context(), principal(c), roles.View, q.Run); err != nil {
			return err
		}
	}
	var some bool
	if q.Within, some = access.Within(principal(c)); !some {
		return access.Allow(principal(c), roles.View, "")
	}
	ctx, closeStream := s.streams.open(c.Request().Context())
	defer closeStream()
	ctx, stop := s.watcher.Watch(ctx, c)
	defer stop()
	// A stream of an unknown run, or of removed events, would never yield them: refuse it first.
	floor, last, err := s.runs.EventBounds(ctx, q.Run)
	if err != nil {
		return err
	}
	if params.From != "" && params.LastEventID == "" {
		q.After = last
	}
	if q.After < floor {
		if params.After != nil || params.LastEventID != "" {
			return run.GoneError(floor)
		}
		q.After = floor
	}
	defer s.metrics.trackStream(c.Path())()
	w, err := s.startStream(c, mediaEvents)
	if err != nil {
		return err
	}
	source := func(ctx context.Context) iter.Seq2[run.Event, error] { return s.runs.Events(ctx, q) }
	err = streamItems(ctx, w, s.opts.Heartbeat, source, func(e run.Event) error {
		if e.Type == "" {
			return w.position(e.Number)
		}
		return w.event(e.Number, string(e.Type), api.EventOf(e))
	})
	return endEvents(ctx, c, w, err)
}

// endEvents sends the error that ends a stream to its client, if the client is
// still connected. A shutdown of the gateway is not a failure of the call.
func endEvents(ctx context.Context, c echo.Context, w *streamWriter, err error) error {
	if err == nil || c.Request().Context().Err() != nil || run.CodeOf(err) == run.CodeCanceled {
		return nil //nolint:nilerr // the client is gone
	}
	if werr := w.problem(err); werr != nil {
		abortResponse(c)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the gateway shuts down
	}
	return err
}

func eventQuery(params api.StreamEventsParams) (run.EventQuery, error) {
	q := run.EventQuery{Run: run.ID(params.Run), Group: params.Group}
	if params.After != nil {
		q.After = *params.After
	}
	if params.From != "" && params.After != nil {
		return q, run.Errorf(run.CodeInvalid, "from and after exclude each other")
	}
	if params.LastEventID != "" {
		last, err := lastEventID(params.LastEventID)
		if err != nil {
			return q, err
		}
		q.After = last
	}
	if params.Group != "" {
		if faults := checkGroup("group", params.Group); len(faults) > 0 {
			return q, run.InvalidError(faults[0].Detail, faults)
		}
	}
	return q, nil
}

// lastEventID parses the header with which a client resumes a stream.
func lastEventID(header string) (int64, error) {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil || n < 0 {
		return 0, run.Errorf(run.CodeInvalid, "Last-Event-ID must be the id of an event of this stream, not %q", header)
	}
	return n, nil
}
