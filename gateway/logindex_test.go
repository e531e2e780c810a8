package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// growingLog serves one log, of which each reader returns the chunks that exist.
type growingLog struct {
	mu      sync.Mutex
	chunks  []run.LogChunk // guarded by mu
	err     error          // guarded by mu; of the next call
	queries []run.LogQuery // guarded by mu
}

func (l *growingLog) add(step int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.chunks)
	l.chunks = append(l.chunks, run.LogChunk{Time: time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC), Step: step, Stream: run.StreamStdout, Data: []byte(text)})
}

func (l *growingLog) serve(t *testing.T) string {
	t.Helper()
	return serve(t, gateway.Deps{Runs: &runtest.Service{LogsFunc: func(_ context.Context, q run.LogQuery) (run.LogReader, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.queries = append(l.queries, q)
		if l.err != nil {
			return nil, l.err
		}
		log, skip, at := runtest.NewLog(), q.Offset, q.Offset
		log.Begin = q.Offset
		for _, c := range l.chunks {
			n := min(skip, int64(len(c.Data)))
			skip -= n
			if c.Data = c.Data[n:]; len(c.Data) > 0 {
				c.Offset = at
				at += int64(len(c.Data))
				log.Send(c)
			}
		}
		log.End(nil)
		return log, nil
	}}}, gateway.Options{})
}

func (l *growingLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func logIndex(t *testing.T, base, query string) api.LogIndex {
	t.Helper()
	got := call{path: logPath + "/index" + query}.do(t, base)
	require.Equal(t, http.StatusOK, got.status, got.body)
	conforms(t, "LogIndex", got.body)
	var x api.LogIndex
	require.NoError(t, json.Unmarshal([]byte(got.body), &x))
	return x
}

func searchLog(t *testing.T, base, query string) api.LogMatches {
	t.Helper()
	got := call{path: logPath + "/search?" + query}.do(t, base)
	require.Equal(t, http.StatusOK, got.status, got.body)
	conforms(t, "LogMatches", got.body)
	var m api.LogMatches
	require.NoError(t, json.Unmarshal([]byte(got.body), &m))
	return m
}

func TestServer_log_index_and_windows(t *testing.T) {
	t.Parallel()
	var l growingLog
	l.add(-1, "setup\n")
	l.add(0, "one\ntw")
	l.add(0, "o\nthree\n")
	l.add(1, "four\nfi")
	base := l.serve(t)
	x := logIndex(t, base, "?every=2&attempt=3&stream=service:db")
	require.Equal(t, run.LogQuery{Run: runID, Task: "a", Attempt: 3, Streams: []run.Stream{run.ServiceStream("db")}}, l.queries[0])
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }
	require.Equal(t, api.LogIndex{
		Lines: 6, Bytes: 27, Offsets: []int64{0, 10, 20},
		Sections: []api.LogSection{{Step: -1, Line: 0, Offset: 0, Time: at(0)}, {Step: 0, Line: 1, Offset: 6, Time: at(1)}, {Step: 1, Line: 4, Offset: 20, Time: at(3)}},
	}, x)

	window := func(query string) string {
		got := call{path: logPath + "?" + query}.do(t, base)
		require.Equal(t, http.StatusOK, got.status, got.body)
		return got.body
	}
	require.Equal(t, "two\nthree\n", window("offset=10&length=10"), "lines 2 and 3, over the border of a chunk")
	require.Equal(t, "t", window("offset=10&length=1"))
	require.Equal(t, "four\nfi", window("offset=20&length=1000"))
	require.Empty(t, window("offset=1000&length=1"))
	require.Equal(t, "2026-01-01T00:00:01.000000000Z two\n2026-01-01T00:00:02.000000000Z three\n", window("offset=10&length=10&timestamps=true"),
		"the length does not count the times")

	// The log grows: the unfinished line gets its end, and the index goes on.
	l.add(1, "ve\nsix\n")
	x = logIndex(t, base, "?every=2")
	require.EqualValues(t, 7, x.Lines)
	require.Equal(t, []int64{0, 10, 20, 30}, x.Offsets)
	require.Equal(t, "six\n", window("offset=30&length=1000"))

	empty := new(growingLog).serve(t)
	require.Equal(t, api.LogIndex{Offsets: []int64{}, Sections: []api.LogSection{}}, logIndex(t, empty, ""))
	require.Empty(t, searchLog(t, empty, "text=a").Matches)
}

func TestServer_log_search(t *testing.T) {
	t.Parallel()
	var l growingLog
	l.add(0, "a \x1b[31mneedle\x1b[0m!\nnothing\nanother nee")
	l.add(1, "DLE\npassword [masked]\n<b>needle</b>\r\n50% + needle")
	base := l.serve(t)
	require.Equal(t, api.LogMatches{Matches: []api.LogMatch{
		{Line: 0, Offset: 0, Text: "a needle!"},
		{Line: 2, Offset: 27, Text: "another neeDLE"},
		{Step: 1, Line: 4, Offset: 60, Text: "<b>needle</b>"},
		{Step: 1, Line: 5, Offset: 75, Text: "50% + needle"},
	}}, searchLog(t, base, "text=Needle"))
	require.EqualValues(t, 3, searchLog(t, base, "text="+url.QueryEscape("d [masked]")).Matches[0].Line, "what the executor masked is found as it is stored")
	require.Empty(t, searchLog(t, base, "text="+url.QueryEscape("n.*e")).Matches, "a text is no pattern")

	first := searchLog(t, base, "text=needle&limit=2")
	require.Len(t, first.Matches, 2)
	rest := searchLog(t, base, "text=needle&limit=2&cursor="+url.QueryEscape(first.Next))
	require.Len(t, rest.Matches, 2)
	require.EqualValues(t, 4, rest.Matches[0].Line)
	require.Empty(t, rest.Next)
}

func TestServer_log_index_and_search_refused(t *testing.T) {
	t.Parallel()
	var l growingLog
	base := l.serve(t)
	for path, name := range map[string]string{
		"/index?every=0": "every", "/index?every=x": "every", "/index?every=1000001": "every", "/index?cursor=1": "cursor", "/index?cursor=line--1--1": "cursor",
		"/index?step=-1": "step", "/index?attempt=0": "attempt", "/search": "text", "/search?text=": "text", "/search?text=a&limit=0": "limit",
		"/search?text=a&limit=1001": "limit", "/search?text=a&cursor=line-1": "cursor", "/search?text=a&step=last": "step",
		"/search?text=" + strings.Repeat("a", 1001): "text", "?length=0": "length", "?length=-1": "length", "?length=1.5": "length",
	} {
		got := call{path: logPath + path}.do(t, base)
		require.Equal(t, http.StatusBadRequest, got.status, "%s: %s", path, got.body)
		require.Contains(t, got.body, name, path)
	}
	got := call{path: logPath + "?length=5", header: map[string]string{"Accept": "text/event-stream"}}.do(t, base)
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, got.body, "plain text only")
	require.Empty(t, l.queries, "no log is opened for a call that is refused")

	l.fail(run.Errorf(run.CodeGone, "the log of task a was removed: logs are kept for a time only"))
	for _, path := range []string{"/index", "/search?text=a", "?length=1"} {
		call{path: logPath + path}.do(t, base).problem(t, http.StatusGone, run.CodeGone)
	}
	l.fail(run.Errorf(run.CodeNotFound, "there is no such task"))
	call{path: logPath + "/index"}.do(t, base).problem(t, http.StatusNotFound, run.CodeNotFound)
}

// longLog is a log of a MiB a line, which counts what is read of it.
type longLog struct {
	line     []byte
	at, size int64
	read     *int64
}

func (l *longLog) Close() error  { return nil }
func (l *longLog) Offset() int64 { return l.at }

func (l *longLog) Services() []string { return nil }

func (l *longLog) Next(context.Context) (run.LogChunk, error) {
	if l.at >= l.size {
		return run.LogChunk{}, io.EOF
	}
	c := run.LogChunk{Offset: l.at, Data: l.line}
	l.at += int64(len(l.line))
	*l.read += int64(len(l.line))
	return c, nil
}

func TestServer_log_index_and_search_are_bounded(t *testing.T) {
	t.Parallel()
	const mib, lines = 1 << 20, 300
	line := append(bytes.Repeat([]byte{'x'}, mib-1), '\n')
	var read int64
	base := serve(t, gateway.Deps{Runs: &runtest.Service{LogsFunc: func(_ context.Context, q run.LogQuery) (run.LogReader, error) {
		return &longLog{line: line, at: q.Offset, size: lines * mib, read: &read}, nil
	}}}, gateway.Options{})
	var offsets []int64
	for query := "?every=1"; ; {
		read = 0
		x := logIndex(t, base, query)
		require.LessOrEqual(t, read, int64(129*mib))
		offsets = append(offsets, x.Offsets...)
		if x.Next == "" {
			require.EqualValues(t, lines, x.Lines)
			break
		}
		query = "?every=1&cursor=" + url.QueryEscape(x.Next)
	}
	require.Len(t, offsets, lines)
	require.EqualValues(t, (lines-1)*mib, offsets[lines-1])
	var found int
	for cursor := ""; ; {
		read = 0
		m := searchLog(t, base, "text=X&limit=1000&cursor="+url.QueryEscape(cmp.Or(cursor, "line-0-0")))
		require.LessOrEqual(t, read, int64(129*mib))
		require.Less(t, len(fmt.Sprint(m)), 129*2000, "the answer has no more than the start of each line")
		found += len(m.Matches)
		if cursor = m.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, lines, found)
}

// TestServer_log_scans_have_turns: of the scans of one caller, at most two run at a time.
func TestServer_log_scans_have_turns(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 10), make(chan struct{})
	base := serve(t, gateway.Deps{Runs: &runtest.Service{LogsFunc: func(context.Context, run.LogQuery) (run.LogReader, error) {
		begun <- struct{}{}
		<-release
		log := runtest.NewLog()
		log.End(nil)
		return log, nil
	}}}, gateway.Options{})
	answers := make(chan answer, 6)
	var calls sync.WaitGroup
	for range 3 {
		for _, path := range []string{"/index", "/search?text=a"} {
			calls.Go(func() { answers <- call{path: logPath + path}.do(t, base) })
		}
	}
	for range 4 {
		got := <-answers
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if n := len(begun); n == 0 || n > 2 {
		t.Errorf("%d scans have begun", n)
	}
	close(release)
	calls.Wait()
}
