package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/webhooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 20 * time.Second
	secret   = "correct horse battery staple"
)

// receiver is an HTTP server with a configurable answer.
type receiver struct {
	*httptest.Server
	t testing.TB

	mu     sync.Mutex
	answer http.HandlerFunc // nil: 204
	got    []delivery
}

type delivery struct {
	id     string
	events []int64
	taken  bool
	at     time.Time
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{t: t}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

func (r *receiver) does(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the connection broke
	}
	h := req.Header
	if h.Get(webhooks.HeaderSignature) != webhooks.Sign(secret, h.Get(webhooks.HeaderTimestamp), body) {
		r.t.Errorf("the signature does not fit: %v", h)
	}
	var payload api.WebhookDelivery
	if err := json.Unmarshal(body, &payload); err != nil || payload.Webhook != h.Get(webhooks.HeaderWebhook) {
		r.t.Errorf("the body does not fit: %v: %s", err, body)
	}
	d := delivery{id: h.Get(webhooks.HeaderDelivery), at: time.Now()}
	for _, e := range payload.Events {
		d.events = append(d.events, e.Number)
	}
	r.mu.Lock()
	answer := r.answer
	d.taken = answer == nil
	r.got = append(r.got, d)
	r.mu.Unlock()
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, req)
}

func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]delivery(nil), r.got...)
}

// taken returns the numbers of the accepted events, in order.
func (r *receiver) taken() []int64 {
	var all []int64
	for _, d := range r.deliveries() {
		if d.taken {
			all = append(all, d.events...)
		}
	}
	return all
}

func (r *receiver) awaitTaken(want ...int64) {
	r.t.Helper()
	testenv.Await(r.t, patience, func() (bool, string) {
		got := r.taken()
		return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprintf("accepted %v, want %v", got, want)
	})
}

func (r *receiver) awaitAttempts(n int) []delivery {
	r.t.Helper()
	testenv.Await(r.t, patience, func() (bool, string) {
		return len(r.deliveries()) >= n, fmt.Sprint(r.deliveries())
	})
	return r.deliveries()
}

// world is a store with events and its deliveries.
type world struct {
	t     *testing.T
	store records.Store
	opts  webhooks.Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &world{t: t, store: store, opts: webhooks.Options{
		Pace: time.Millisecond, Timeout: 5 * time.Second, FirstRetry: 5 * time.Millisecond, LastRetry: 20 * time.Millisecond,
	}}
}

// happen creates n runs of a group, with one event each.
func (w *world) happen(group string, n int) {
	w.t.Helper()
	for range n {
		w.create(group)
	}
}

func (w *world) create(group string) run.ID {
	w.t.Helper()
	spec := &run.Spec{Name: "one", Group: group, Tasks: map[string]*run.TaskSpec{
		"build": {Pool: "linux", Steps: []run.Step{{Run: "true"}}},
	}}
	x, faults := run.Expand(spec, func(_ string, t *run.TaskSpec) (string, error) { return t.Pool, nil })
	require.Empty(w.t, faults)
	r, err := w.store.CreateRun(w.t.Context(), records.NewRun{Spec: spec, Plan: x.Plan, Tasks: x.Tasks})
	require.NoError(w.t, err)
	return r.ID
}

func (w *world) put(r *receiver, change func(*run.WebhookSpec)) run.Webhook {
	w.t.Helper()
	spec := run.WebhookSpec{Name: "ci", URL: r.URL + "/hook?token=sesame", Secret: secret, Enabled: true}
	if change != nil {
		change(&spec)
	}
	require.Empty(w.t, run.ValidateWebhook(spec))
	hook, _, err := w.store.PutWebhook(w.t.Context(), spec)
	require.NoError(w.t, err)
	return hook
}

func (w *world) get() run.Webhook {
	w.t.Helper()
	hook, err := w.store.GetWebhook(w.t.Context(), "ci")
	require.NoError(w.t, err)
	return hook
}

func (w *world) await(wanted func(run.Webhook) bool) run.Webhook {
	w.t.Helper()
	var hook run.Webhook
	testenv.Await(w.t, patience, func() (bool, string) {
		hook = w.get()
		return wanted(hook), fmt.Sprintf("%+v", hook)
	})
	return hook
}

// ending is the result of Deliver.
type ending struct {
	why string
	err error
}

// deliver runs Deliver until the test or stop ends it.
func (w *world) deliver() (ended <-chan ending, stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan ending, 1), make(chan struct{})
	d := webhooks.New(w.store, slog.New(slog.DiscardHandler), w.opts)
	go func() {
		defer close(done)
		why, err := d.Deliver(ctx, "ci")
		out <- ending{why, err}
	}()
	stop = func() {
		cancel()
		<-done
	}
	w.t.Cleanup(stop)
	return out, stop
}
