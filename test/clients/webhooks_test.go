package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
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
	"github.com/drover-run/drover/webhooks"
)

const hookSecret = "correct horse battery staple"

// hookReceiver is a webhook receiver that can stop and start again on the same
// address.
type hookReceiver struct {
	t       *testing.T
	address string
	server  *http.Server

	mu      sync.Mutex
	status  int
	seen    int64 // number of the last event that the receiver accepted
	batches []string
	faults  []string
}

func newHookReceiver(t *testing.T) *hookReceiver {
	t.Helper()
	r := &hookReceiver{t: t, address: harness.FreeAddress(t), status: http.StatusNoContent}
	t.Cleanup(r.stop)
	r.start()
	return r
}

func (r *hookReceiver) start() {
	r.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(r.t.Context(), "tcp", r.address)
	require.NoError(r.t, err)
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }()
}

func (r *hookReceiver) stop() { _ = r.server.Close() }

func (r *hookReceiver) respondWith(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *hookReceiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender closed the connection
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, req.Header.Get(webhooks.HeaderDelivery))
	if req.Header.Get(webhooks.HeaderSignature) != webhooks.Sign(hookSecret, req.Header.Get(webhooks.HeaderTimestamp), body) {
		r.faults = append(r.faults, "a wrong signature")
	}
	var d api.WebhookDelivery
	if err := json.Unmarshal(body, &d); err != nil {
		r.faults = append(r.faults, err.Error())
	}
	seen := r.seen
	for _, e := range d.Events {
		if e.Number > seen+1 {
			r.faults = append(r.faults, fmt.Sprintf("event %d came after %d", e.Number, seen))
		}
		seen = max(seen, e.Number)
	}
	if r.status < 300 {
		r.seen = seen
	}
	w.WriteHeader(r.status)
}

// await waits until the receiver has accepted all events up to a number.
func (r *hookReceiver) await(number int64) {
	r.t.Helper()
	testenv.Await(r.t, func() (bool, string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.seen >= number, fmt.Sprintf("event %d of %d; %v", r.seen, number, r.batches)
	})
}

// check requires that no event was skipped and no delivery had a wrong
// signature.
func (r *hookReceiver) check() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(r.t, r.faults)
}

func hook(t *testing.T, c *harness.Client, method, body string) api.Webhook {
	t.Helper()
	status, answer, err := c.Do(t.Context(), method, "/api/v1/webhooks/ci", "application/json", body)
	require.NoError(t, err)
	require.Less(t, status, 300, answer)
	require.NotContains(t, answer, hookSecret)
	var w api.Webhook
	require.NoError(t, json.Unmarshal([]byte(answer), &w))
	return w
}

func (r *hookReceiver) put(c *harness.Client) {
	r.t.Helper()
	hook(r.t, c, http.MethodPut, fmt.Sprintf(`{"url": "http://%s/hook", "secret": %q}`, r.address, hookSecret))
}

const hooked = "name: hooked\ngroup: /test/hooked\ntasks: {a: {steps: [{run: 'true'}]}, b: {depends: [a], steps: [{run: 'true'}]}}\n"

// last waits until the runs have finished and all events are delivered, and
// returns the number of the last event.
func last(t *testing.T, c *harness.Client, runs ...string) int64 {
	t.Helper()
	for _, id := range runs {
		c.AwaitPhase(id, api.PhaseFinished)
	}
	var number int64
	testenv.Await(t, func() (bool, string) {
		before := number
		number = hook(t, c, http.MethodGet, "").Delivered
		return number > 0 && number == before && hook(t, c, http.MethodGet, "").LastError == "", fmt.Sprint(number)
	})
	return number
}

// TestWebhooks_lose_nothing makes the receiver fail, stop and start again, and
// kills all of Drover meanwhile. Every event is delivered, in order.
func TestWebhooks_lose_nothing(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, nil, "--executor", "shell")
	r := newHookReceiver(t)
	r.put(dev.Client)
	dev.AwaitPhase(dev.Submit(hooked).ID, api.PhaseFinished)
	r.respondWith(http.StatusServiceUnavailable)
	runs := []string{dev.Submit(hooked).ID}
	testenv.Await(t, func() (bool, string) {
		w := hook(t, dev.Client, http.MethodGet, "")
		return w.Failures > 1 && strings.Contains(w.LastError, "503"), w.LastError
	})
	dev.Kill()
	dev.Restart()
	runs = append(runs, dev.Submit(hooked).ID)
	r.stop()
	for _, id := range runs {
		dev.AwaitPhase(id, api.PhaseFinished)
	}
	r.respondWith(http.StatusOK)
	r.start()
	// The backoff may be long by now; setting the webhook again delivers at once.
	r.put(dev.Client)
	runs = append(runs, dev.Submit(hooked).ID)
	r.await(last(t, dev.Client, runs...))
	r.check()
	require.NoError(t, dev.Stop())
	// The secret is never in a Temporal payload.
	history := harness.Grep(t, filepath.Join(dev.Dir, "data", "temporal.db"), hookSecret)
	require.False(t, history, "the secret is in Temporal's database")
}

// TestWebhooks_survive_their_worker kills the control worker that delivers, and
// starts another, which continues with the next event.
func TestWebhooks_survive_their_worker(t *testing.T) {
	t.Parallel()
	p := harness.StartParts(t, "2", nil)
	r := newHookReceiver(t)
	r.put(p.Client)
	runs := []string{p.Submit(hooked).ID}
	r.await(3)
	p.Processes[harness.Control].Kill()
	runs = append(runs, p.Submit(hooked).ID)
	p.Launch(harness.Control).AwaitReady()
	runs = append(runs, p.Submit(hooked).ID)
	r.await(last(t, p.Client, runs...))
	r.check()
}
