package remote_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/clitest"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/run"
)

func client(t *testing.T, server string, change func(*remote.Options)) *remote.Client {
	t.Helper()
	opts := remote.Options{Server: server, Token: clitest.Token, Pause: time.Millisecond, RetryTimeout: 10 * time.Second}
	if change != nil {
		change(&opts)
	}
	c, err := remote.New(opts)
	require.NoError(t, err)
	return c
}

func TestNew_refuses(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"", "localhost:8080", "ftp://x", "http://", "http://u:p@host", "http://a b"} {
		_, err := remote.New(remote.Options{Server: server})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), server)
		require.NotContains(t, err.Error(), "u:p@")
	}
}

func TestClient_foreign_answers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status      int
		media, body string
		code        run.Code
		text        string
	}{
		{200, "text/html", "<html>", run.CodeInternal, "answers, but not as a Drover gateway does"},
		{404, "text/plain", "404 page not found", run.CodeInternal, "answers 404 Not Found, but not as a Drover gateway does"},
		{502, "text/html", "<html>", run.CodeUnavailable, "answers 502 Bad Gateway"},
		{504, "text/html", "<html>", run.CodeTimeout, "answers 504"},
		{401, "text/html", "", run.CodeUnauthenticated, "answers 401"},
		{403, "text/html", "", run.CodeForbidden, "answers 403"},
		{413, "text/html", "", run.CodeTooLarge, "answers 413"},
		{429, "text/html", "", run.CodeExhausted, "answers 429"},
		{409, "application/problem+json", `{"code": "of_the_future", "title": "Later"}`, "of_the_future", "Later"},
		{409, "application/problem+json; charset=utf-8", `{"code": "wrong_phase", "detail": "it is queued"}`, run.CodeWrongPhase, "it is queued"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status, tt.code), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.media)
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer server.Close()
			_, err := client(t, server.URL, nil).Run(t.Context(), "r1")
			require.Equal(t, tt.code, run.CodeOf(err))
			require.ErrorContains(t, err, tt.text)
		})
	}
}

func TestClient_sends_no_empty_parameters(t *testing.T) {
	t.Parallel()
	var query string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		_, _ = w.Write([]byte(`{"runs": []}`))
	}))
	defer server.Close()
	limit := 7
	_, err := client(t, server.URL+"/", nil).Runs(t.Context(), &api.ListRunsParams{Limit: &limit, Annotation: []string{"a=b,c", ""}, Group: []string{"/a", "/b"}})
	require.NoError(t, err)
	require.Equal(t, "annotation=a%3Db%2Cc&group=%2Fa&group=%2Fb&limit=7", query)
}

// script answers each request of a stream with the next text, and then closes the
// connection.
func script(t *testing.T, answers ...string) (server *httptest.Server, requests *[]string) {
	t.Helper()
	var n atomic.Int64
	requests = &[]string{}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1)) - 1
		*requests = append(*requests, r.URL.RawQuery)
		if i >= len(answers) {
			i = len(answers) - 1
		}
		if answers[i] == "silence" {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte(answers[i]))
	}))
	t.Cleanup(server.Close)
	return server, requests
}

func event(n int) string {
	return fmt.Sprintf("id: %d\nevent: task\ndata: {\"number\": %d, \"task\": \"t%d\"}\n\n", n, n, n)
}

const expired = "event: problem\ndata: {\"code\": \"token_expired\", \"detail\": \"the token expired\"}\n\n"

func TestEvents_resume_broken_streams(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		answers []string
		change  func(*remote.Options)
	}{
		{name: "in one piece", answers: []string{event(1) + event(2) + event(3)}},
		{name: "cut between", answers: []string{event(1), event(2), event(3)}},
		{name: "cut within", answers: []string{event(1) + event(2)[:20], event(2) + event(3)}},
		{name: "repeated", answers: []string{event(1) + event(2), event(1) + event(2) + event(3)}},
		{name: "comments, carriage returns and unknown fields", answers: []string{": hello\n\nretry: 5\n\n" + strings.ReplaceAll(event(1)+event(2)+event(3), "\n", "\r\n")}},
		{name: "shut down in between", answers: []string{event(1) + "event: problem\ndata: {\"code\": \"unavailable\", \"detail\": \"the gateway is shutting down\"}\n\n", event(2) + event(3)}},
		{name: "a token expires that is renewed", answers: []string{event(1) + expired, event(2) + event(3)}, change: func(o *remote.Options) {
			o.TokenSource = func(context.Context) (string, error) { return "renewed", nil }
		}},
		{name: "silent in between", answers: []string{event(1), "silence", event(2) + event(3)}, change: func(o *remote.Options) { o.Silence = 50 * time.Millisecond }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, requests := script(t, tt.answers...)
			var got []string
			for e, err := range client(t, server.URL, tt.change).Events(t.Context(), remote.EventQuery{Run: "r1"}) {
				require.NoError(t, err)
				got = append(got, e.Task)
				if len(got) == 3 {
					break
				}
			}
			require.Equal(t, []string{"t1", "t2", "t3"}, got)
			require.Equal(t, "run=r1", (*requests)[0])
		})
	}
}

func TestEvents_resume_after_events_left_out(t *testing.T) {
	t.Parallel()
	server, requests := script(t,
		"id: 40\n\n", "id: 50\r\n\r\n: hello\n\nid: \n\nid: x\n\n", event(51)+"id: 40\n\n", "id: 60\n\nid: 70\n", event(60)+event(61))
	var got []int64
	for e, err := range client(t, server.URL, nil).Events(t.Context(), remote.EventQuery{Group: "/a"}) {
		require.NoError(t, err)
		if got = append(got, e.Number); len(got) == 2 {
			break
		}
	}
	require.Equal(t, []int64{51, 61}, got)
	require.Equal(t, []string{"group=%2Fa", "after=40&group=%2Fa", "after=50&group=%2Fa", "after=51&group=%2Fa", "after=60&group=%2Fa"}, *requests)
}

func TestEvents_time_out(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, answer string
		code         run.Code
	}{
		{"refused", "event: problem\ndata: {\"code\": \"not_found\", \"detail\": \"gone\"}\n\n", run.CodeNotFound},
		{"expired", expired, run.CodeTokenExpired},
		{"always cut", "", run.CodeUnavailable},
		{"always out of order", "event: problem\ndata: {\"code\": \"unavailable\"}\n\n", run.CodeUnavailable},
		{"unreadable", "data: {\n\n", run.CodeInternal},
		{"endless", "data: " + strings.Repeat("x", 17<<20), run.CodeUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, _ := script(t, tt.answer)
			var last error
			for _, err := range client(t, server.URL, func(o *remote.Options) { o.RetryTimeout = 50 * time.Millisecond }).Events(t.Context(), remote.EventQuery{}) {
				require.Error(t, err)
				last = err
			}
			require.Equal(t, tt.code, run.CodeOf(last), "%v", last)
		})
	}
}

func TestEvents_end_with_the_context(t *testing.T) {
	t.Parallel()
	server, _ := script(t, "silence")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var last error
	for _, err := range client(t, server.URL, nil).Events(ctx, remote.EventQuery{}) {
		last = err
	}
	require.ErrorIs(t, last, context.DeadlineExceeded)
}

func chunk(offset int, text string) string {
	return fmt.Sprintf("id: %d\nevent: log\ndata: {\"offset\": %d, \"data\": %q}\n\n", offset+3, offset, text)
}

const end = "event: end\ndata: {}\n\n"

func TestLog_resumes(t *testing.T) {
	t.Parallel()
	// YWJj is abc, ZGVm is def.
	server, requests := script(t, chunk(0, "YWJj"), chunk(0, "YWJj")+chunk(3, "ZGVm")[:30], chunk(3, "ZGVm"), chunk(4, "ZWY=")+end)
	var got strings.Builder
	for c, err := range client(t, server.URL, nil).Log(t.Context(), remote.LogQuery{Run: "r1", Task: "a[b=c]", Follow: true}) {
		require.NoError(t, err)
		require.Equal(t, int64(got.Len()), c.Offset)
		got.Write(c.Data)
	}
	require.Equal(t, "abcdef", got.String())
	require.Equal(t, []string{"follow=true&offset=0", "follow=true&offset=3", "follow=true&offset=3", "follow=true&offset=6"}, *requests)
}

func start(offset int) string {
	return fmt.Sprintf("id: %d\nevent: start\ndata: {\"offset\": %d}\n\n", offset, offset)
}

func TestLog_resumes_the_last_lines(t *testing.T) {
	t.Parallel()
	server, requests := script(t, start(40), start(40), chunk(40, "YWJj"), start(43)+end)
	var got strings.Builder
	q := remote.LogQuery{Run: "r1", Task: "a", Follow: true, Tail: new(2), Since: "10m", Streams: []string{"stderr"}}
	for c, err := range client(t, server.URL, nil).Log(t.Context(), q) {
		require.NoError(t, err)
		got.Write(c.Data)
	}
	require.Equal(t, "abc", got.String())
	require.Equal(t, []string{
		"follow=true&since=10m&stream=stderr&tail=2", "follow=true&offset=40&stream=stderr", "follow=true&offset=40&stream=stderr",
		"follow=true&offset=43&stream=stderr",
	}, *requests)
}

func TestLog_without_retries(t *testing.T) {
	t.Parallel()
	server, requests := script(t, chunk(0, "YWJj"))
	var last error
	for _, err := range client(t, server.URL, nil).Log(t.Context(), remote.LogQuery{Run: "r1", Task: "a", NoRetry: true}) {
		last = err
	}
	require.Equal(t, run.CodeUnavailable, run.CodeOf(last), "a log that is cut off is incomplete")
	require.Len(t, *requests, 1)
}

func TestAwaitRun_retries(t *testing.T) {
	t.Parallel()
	g := clitest.New(t)
	g.Put(api.Run{ID: "r1"})
	g.SetUnavailable(true)
	c := client(t, g.URL, nil)
	done := make(chan error, 1)
	go func() {
		_, err := c.AwaitRun(t.Context(), "r1")
		done <- err
	}()
	require.True(t, g.AwaitRequest("GET /api/v1/runs/r1", 3))
	g.SetUnavailable(false)
	require.NoError(t, <-done)
	_, err := c.AwaitRun(t.Context(), "r2")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
}
