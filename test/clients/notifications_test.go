package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

const notifySecret = "T0secret-of-the-channel"

// channel is a receiver of Slack messages. It keeps the texts of their
// notifications.
type channel struct {
	t       *testing.T
	address string

	mu    sync.Mutex
	texts []string
	fail  bool
}

func newChannel(t *testing.T) *channel {
	t.Helper()
	c := &channel{t: t, address: harness.FreeAddress(t)}
	server := &http.Server{Addr: c.address, Handler: http.HandlerFunc(c.serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.ListenAndServe() }()
	t.Cleanup(func() { _ = server.Close() })
	return c
}

func (c *channel) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender closed the connection
	}
	var m struct {
		Text string `json:"text"`
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := json.Unmarshal(body, &m); err != nil || r.URL.Path != "/services/"+notifySecret {
		c.texts = append(c.texts, fmt.Sprintf("%s: %v", r.URL.Path, err))
	}
	if c.fail {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	// A message may come twice after a crash.
	if len(c.texts) == 0 || c.texts[len(c.texts)-1] != m.Text {
		c.texts = append(c.texts, m.Text)
	}
}

func (c *channel) set(fail bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

func (c *channel) await(want ...string) {
	c.t.Helper()
	testenv.Await(c.t, func() (bool, string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Sprint(c.texts) == fmt.Sprint(want), fmt.Sprintf("got %q, want %q", c.texts, want)
	})
}

// TestNotifications has failed runs and waiting tasks reported to a channel, also
// if all of Drover is killed while the channel is away.
func TestNotifications(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, nil, "--executor", "shell")
	c := newChannel(t)
	body := fmt.Sprintf(`{"url": "http://%s/services/%s", "format": "slack", "results": ["failed"], "groups": ["/test/*"]}`, c.address, notifySecret)
	w := hook(t, dev.Client, http.MethodPut, body)
	require.Equal(t, "http://"+c.address+"/[redacted]", w.URL)
	const failing = "name: failing\ngroup: /test/notified\ntasks: {a: {steps: [{run: 'exit 3'}]}}\n"
	dev.AwaitPhase(dev.Submit(hooked).ID, api.PhaseFinished) // succeeds
	dev.AwaitPhase(dev.Submit(strings.ReplaceAll(failing, "/test/", "/other/")).ID, api.PhaseFinished)
	dev.AwaitPhase(dev.Submit(failing).ID, api.PhaseFinished)
	c.await("failing #1 failed")
	c.set(true)
	dev.AwaitPhase(dev.Submit(failing).ID, api.PhaseFinished)
	testenv.Await(t, func() (bool, string) {
		w := hook(t, dev.Client, http.MethodGet, "")
		return w.Failures > 0, w.LastError
	})
	dev.Kill()
	c.set(false)
	dev.Restart()
	dev.Submit("name: gated\ngroup: /test/notified\ntasks: {deploy: {approval: true, steps: [{run: 'true'}]}}\n")
	c.await("failing #1 failed", "failing #2 failed", "gated #3: deploy waits for approval")

	// A test reports the answer of the receiver.
	for _, fail := range []bool{false, true} {
		c.set(fail)
		status, answer, err := dev.Do(t.Context(), http.MethodPost, "/api/v1/webhooks/ci/test", "application/json", "{}")
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, status, answer)
		var requested api.Webhook
		require.NoError(t, json.Unmarshal([]byte(answer), &requested))
		testenv.Await(t, func() (bool, string) {
			got := hook(t, dev.Client, http.MethodGet, "").Test
			return got.Done == requested.Test.Requested && strings.Contains(got.Error, "500") == fail, fmt.Sprint(got)
		})
	}
	require.NoError(t, dev.Stop())
	for _, file := range []string{"temporal.db", "records.db"} {
		require.False(t, harness.Grep(t, filepath.Join(dev.Dir, "data", file), notifySecret), "the URL is in %s", file)
	}
}
