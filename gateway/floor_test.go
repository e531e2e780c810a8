package gateway_test

import (
	"context"
	"iter"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// TestServer_events_removed requests removed events: the gateway answers with the
// first number that is left. A request for all events begins with that number.
func TestServer_events_removed(t *testing.T) {
	t.Parallel()
	events, queries, ended := make(chan run.Event), make(chan run.EventQuery, 10), make(chan struct{})
	service := eventService(events, queries, ended)
	service.EventFloorFunc = func(_ context.Context, id run.ID) (int64, error) {
		if id != "" {
			return 0, nil
		}
		return 41, nil
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	for name, c := range map[string]call{
		"after":         {path: "/api/v1/events?after=40"},
		"from_0":        {path: "/api/v1/events?after=0"},
		"last_event_id": {path: "/api/v1/events", header: map[string]string{"Last-Event-ID": "3"}},
	} {
		p := c.do(t, base).problem(t, http.StatusGone, run.CodeGone)
		require.Equal(t, int64(41), p.Floor, name)
		require.Contains(t, p.Detail, "41")
	}
	s := open(t, base+"/api/v1/events", nil)
	require.Equal(t, run.EventQuery{After: 41}, <-queries)
	require.NoError(t, s.Body.Close())
	<-ended
}

func TestServer_events_not_removed(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]run.EventQuery{
		"?after=41":             {After: 41},
		"?run=" + runID:         {Run: runID},
		"?after=99":             {After: 99},
		"?after=1&run=" + runID: {Run: runID, After: 1},
	} {
		queries, ended := make(chan run.EventQuery, 1), make(chan struct{})
		service := eventService(make(chan run.Event), queries, ended)
		service.EventFloorFunc = func(_ context.Context, id run.ID) (int64, error) {
			if id != "" {
				return 0, nil
			}
			return 41, nil
		}
		base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
		s := open(t, base+"/api/v1/events"+path, nil)
		require.Equal(t, want, <-queries)
		require.NoError(t, s.Body.Close())
		<-ended
	}
}

// TestServer_events_removed_meanwhile: a reader that falls too far behind gets
// the error in its stream.
func TestServer_events_removed_meanwhile(t *testing.T) {
	t.Parallel()
	service := &runtest.Service{EventsFunc: func(context.Context, run.EventQuery) iter.Seq2[run.Event, error] {
		return func(yield func(run.Event, error) bool) { yield(run.Event{}, run.GoneError(41)) }
	}}
	s := open(t, serve(t, gateway.Deps{Runs: service}, gateway.Options{})+"/api/v1/events", nil)
	got := s.next(t)
	require.Equal(t, "problem", got.name)
	require.Contains(t, got.data, `"floor":41`)
}
