package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/testenv"
)

// Client is an HTTP client of a gateway. Get, and the methods that wait, retry
// while the gateway is down.
type Client struct {
	t      testing.TB
	Server string
	Token  string
	http   *http.Client
}

// NewClient returns a client of a server.
func NewClient(t testing.TB, server, token string) *Client {
	return &Client{t: t, Server: server, Token: token, http: &http.Client{Timeout: 2 * time.Minute}}
}

// Context returns the current context of the context file in dir.
func Context(dir string) (session.Context, error) {
	all, err := session.ReadContexts(session.Env{LookupEnv: func(name string) (string, bool) {
		return filepath.Join(dir, "context.yaml"), name == "DROVER_CONTEXT"
	}})
	if err != nil {
		return session.Context{}, err
	}
	return all.Find("")
}

// ContextClient returns a client of the server in the context file that
// `drover dev` wrote to dir.
func ContextClient(t testing.TB, dir string) *Client {
	t.Helper()
	c, err := Context(dir)
	require.NoError(t, err)
	token, err := os.ReadFile(c.TokenFile)
	require.NoError(t, err)
	return NewClient(t, c.Server, strings.TrimSpace(string(token)))
}

// Do makes one call and returns the status and the body. It does not retry.
func (c *Client) Do(ctx context.Context, method, path, contentType, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Server+path, strings.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("create the request: %w", err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("call %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", fmt.Errorf("read the response to %s: %w", path, err)
	}
	return resp.StatusCode, string(data), nil
}

// Submit creates a run from YAML.
func (c *Client) Submit(spec string) api.Run {
	c.t.Helper()
	status, body, err := c.Do(c.t.Context(), http.MethodPost, "/api/v1/runs", "application/yaml", spec)
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusCreated, status, body)
	return c.decode(body)
}

// Get reads a run. It retries for up to a minute while the gateway is down.
func (c *Client) Get(id string) api.Run {
	c.t.Helper()
	var run api.Run
	testenv.Await(c.t, func() (bool, string) {
		status, body, err := c.Do(c.t.Context(), http.MethodGet, "/api/v1/runs/"+id, "", "")
		if err != nil {
			return false, err.Error()
		}
		if status != http.StatusOK {
			return false, body
		}
		run = c.decode(body)
		return true, ""
	})
	return run
}

// Post makes a POST call on a run with an empty JSON object, which must succeed.
func (c *Client) Post(path string) api.Run {
	c.t.Helper()
	status, body, err := c.Do(c.t.Context(), http.MethodPost, "/api/v1/runs/"+path, "application/json", "{}")
	require.NoError(c.t, err)
	require.Less(c.t, status, 300, body)
	return c.decode(body)
}

// AwaitPhase waits until the run has the phase.
func (c *Client) AwaitPhase(id string, phase api.Phase) api.Run {
	c.t.Helper()
	return c.Await(id, func(r api.Run) bool { return r.Phase == phase })
}

// Await waits until cond is true of the run, and returns the run.
func (c *Client) Await(id string, cond func(api.Run) bool) api.Run {
	c.t.Helper()
	var run api.Run
	testenv.Await(c.t, func() (bool, string) {
		run = c.Get(id)
		if cond(run) {
			return true, ""
		}
		return false, Describe(run)
	})
	return run
}

// TemporalAnswers reports whether no reason of a run says that Temporal is out of reach.
// On a busy machine it may not answer in time soon after the start, and the reasons say so
// until the next check.
func TemporalAnswers(r api.Run) bool {
	const away = "Temporal is out of reach"
	for _, task := range r.Tasks {
		if strings.Contains(task.Reason, away) {
			return false
		}
	}
	return !strings.Contains(r.Reason, away)
}

// AwaitPath reads a path until the status is 200 and cond is true of the body.
func (c *Client) AwaitPath(path string, cond func(body string) bool) {
	c.t.Helper()
	testenv.Await(c.t, func() (bool, string) {
		status, body, err := c.Do(c.t.Context(), http.MethodGet, path, "", "")
		if err != nil {
			return false, err.Error()
		}
		return status == http.StatusOK && cond(body), body
	})
}

// Logs returns the log of a task without the log of its setup.
func (c *Client) Logs(id, task string) string {
	c.t.Helper()
	setup := c.log(id, task, "?step=setup") // first, since it can grow until the whole log is read
	whole, found := strings.CutPrefix(c.log(id, task, ""), setup)
	require.True(c.t, found, "the log does not begin with the log of the setup")
	return whole
}

// AwaitLogs waits until the log of a task's steps equals want. A task may end
// before its log is complete: a result does not wait for frames that an
// unreachable gateway has not accepted yet.
func (c *Client) AwaitLogs(id, task, want string) {
	c.t.Helper()
	testenv.Await(c.t, func() (bool, string) {
		got := c.Logs(id, task)
		return got == want, fmt.Sprintf("the log of %s of %s is %q instead of %q", task, id, got, want)
	})
}

func (c *Client) log(id, task, query string) string {
	c.t.Helper()
	status, body, err := c.Do(c.t.Context(), http.MethodGet, "/api/v1/runs/"+id+"/tasks/"+url.PathEscape(task)+"/logs"+query, "", "")
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusOK, status, body)
	return body
}

func (c *Client) decode(body string) api.Run {
	c.t.Helper()
	var run api.Run
	require.NoError(c.t, json.Unmarshal([]byte(body), &run), body)
	return run
}

// Describe summarizes the state of a run, for failure messages.
func Describe(r api.Run) string {
	counts := map[api.Status]int{}
	var odd []string
	for name, task := range r.Tasks {
		counts[task.Status]++
		if task.Reason != "" && len(odd) < 10 {
			odd = append(odd, fmt.Sprintf("%s %s (attempt %d): %s", name, task.Status, task.Attempt, task.Reason))
		}
	}
	return fmt.Sprintf("run %s: %s, %s, %v\n%s", r.ID, r.Phase, r.Result, counts, strings.Join(odd, "\n"))
}
