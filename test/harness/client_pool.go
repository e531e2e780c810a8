package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
)

// ClientPool is a client of several gateways, each of which may be down. It retries a
// call on the next gateway until one answers. Calls that create a run carry an
// idempotency key, so retries are harmless.
type ClientPool struct {
	t       *testing.T
	clients []*Client
	http    *http.Client
	mu      sync.Mutex
	next    int
}

// NewClientPool returns a pool of the clients of some gateways.
func NewClientPool(t *testing.T, clients ...*Client) *ClientPool {
	return &ClientPool{t: t, clients: clients, http: &http.Client{Timeout: 20 * time.Second}}
}

// Call repeats a call until a gateway answers with a status below 500. It returns
// the status and the body.
func (c *ClientPool) Call(ctx context.Context, method, path, key, body string) (int, string) {
	for ctx.Err() == nil {
		c.mu.Lock()
		c.next++
		client := c.clients[c.next%len(c.clients)]
		c.mu.Unlock()
		status, text, err := c.Once(ctx, client, method, path, key, body)
		if err == nil && status < http.StatusInternalServerError {
			return status, text
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond): //nolint:forbidigo // between two tries
		}
	}
	return 0, context.Cause(ctx).Error()
}

// Once makes a call to the gateway of one client, and returns the status and the body.
func (c *ClientPool) Once(ctx context.Context, client *Client, method, path, key, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, client.Server+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("create the request: %w", err)
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.Header.Set("Authorization", "Bearer "+client.Token)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("call %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", fmt.Errorf("read the response to %s: %w", path, err)
	}
	return resp.StatusCode, string(text), nil
}

// Read makes a GET call, which must succeed, and decodes the response into v.
func (c *ClientPool) Read(ctx context.Context, path string, v any) {
	status, text := c.Call(ctx, http.MethodGet, path, "", "")
	require.Equal(c.t, http.StatusOK, status, text)
	require.NoError(c.t, json.Unmarshal([]byte(text), v))
}

// List reads all runs that a query selects.
func (c *ClientPool) List(ctx context.Context, query string) []api.Run {
	var all []api.Run
	for cursor := ""; ; {
		var page api.RunPage
		c.Read(ctx, "/runs?limit=100&order=asc&"+query+cursor, &page)
		all = append(all, page.Runs...)
		if page.NextCursor == "" {
			return all
		}
		cursor = "&cursor=" + page.NextCursor
	}
}

// AwaitNoOpenRuns waits until no run is open. It passes the open runs to release, unless
// release is nil.
func (c *ClientPool) AwaitNoOpenRuns(ctx context.Context, release func(ctx context.Context, open []api.Run)) {
	pauses := time.NewTicker(200 * time.Millisecond) //nolint:forbidigo // between two looks; the caller has the limit
	defer pauses.Stop()
	for {
		open := c.List(ctx, "phase=queued&phase=running")
		if len(open) == 0 {
			return
		}
		if release != nil {
			release(ctx, open)
		}
		select {
		case <-ctx.Done():
			var one api.Run
			c.Read(context.WithoutCancel(ctx), "/runs/"+open[0].ID, &one)
			require.FailNow(c.t, "runs do not end", "%d runs are open, the first of them:\n%s\n%s", len(open), one.Reason, Describe(one))
		case <-pauses.C:
		}
	}
}

// Events reads all events until last returns true, and checks that their
// numbers have no gaps.
func (c *ClientPool) Events(ctx context.Context, last func(e api.Event) bool) []api.Event {
	var all []api.Event
	c.Follow(ctx, "", func(e api.Event) bool {
		all = append(all, e)
		require.EqualValues(c.t, len(all), e.Number, "event numbers have no gaps")
		return last(e)
	})
	return all
}

// Follow reads the events that a query selects, from the first event on, until
// last returns true.
func (c *ClientPool) Follow(ctx context.Context, query string, last func(e api.Event) bool) {
	ctx, cancel := context.WithTimeout(ctx, testenv.Patience(c.t))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.clients[0].Server+"/api/v1/events?"+query, nil)
	require.NoError(c.t, err)
	req.Header.Set("Authorization", "Bearer "+c.clients[0].Token)
	resp, err := (&http.Client{}).Do(req)
	require.NoError(c.t, err)
	defer func() { _ = resp.Body.Close() }()
	n := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e api.Event
		require.NoError(c.t, json.Unmarshal([]byte(data), &e))
		n++
		if last(e) {
			return
		}
	}
	require.FailNow(c.t, "the events ended too early", "after %d", n)
}

// CheckOrder checks that the phases in the events of each run never go backward,
// that each run ends once, and that no task event follows the end of its run.
func CheckOrder(t *testing.T, events []api.Event) {
	t.Helper()
	rank := map[string]int{"queued": 1, "running": 2, "finished": 3, "cancelled": 3}
	phase, ended := map[string]string{}, map[string]int{}
	for _, e := range events {
		if e.Type != "run" {
			require.NotEqual(t, 3, rank[phase[e.Run]], "task %s of run %s after the run's end (event %d)", e.Task, e.Run, e.Number)
			continue
		}
		require.GreaterOrEqual(t, rank[string(e.Phase)], rank[phase[e.Run]], "the phase of run %s goes backward (event %d)", e.Run, e.Number)
		if rank[string(e.Phase)] == 3 {
			ended[e.Run]++
		}
		phase[e.Run] = string(e.Phase)
	}
	for id, p := range phase {
		require.Equal(t, 3, rank[p], "run %s has no end", id)
		require.Equal(t, 1, ended[id], "run %s ends once", id)
	}
}
