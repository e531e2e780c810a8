package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
	"github.com/drover-run/drover/webhooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "correct horse battery staple"

// receiver is an HTTP server with a configurable answer.
type receiver struct {
	*httptest.Server
	t testing.TB

	mu     sync.Mutex
	answer http.HandlerFunc // nil: 204
	got    []delivery
}

type delivery struct {
	id       string
	events   []int64
	accepted bool
	at       time.Time
}

func (w *env) newReceiver() *receiver {
	w.t.Helper()
	r := &receiver{t: w.t}
	r.Server = w.serve(r.serve)
	return r
}

func (r *receiver) setAnswer(answer http.HandlerFunc) {
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
	d.accepted = answer == nil
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

// accepted returns the numbers of the accepted events, in order.
func (r *receiver) accepted() []int64 {
	var all []int64
	for _, d := range r.deliveries() {
		if d.accepted {
			all = append(all, d.events...)
		}
	}
	return all
}

func (r *receiver) awaitAccepted(want ...int64) {
	r.t.Helper()
	testenv.Await(r.t, func() (bool, string) {
		got := r.accepted()
		return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprintf("accepted %v, want %v", got, want)
	})
}

func (r *receiver) awaitAttempts(n int) []delivery {
	r.t.Helper()
	testenv.Await(r.t, func() (bool, string) {
		return len(r.deliveries()) >= n, fmt.Sprint(r.deliveries())
	})
	return r.deliveries()
}

// env is a store with events and its deliveries.
type env struct {
	t     *testing.T
	store records.Store
	opts  webhooks.Options
	peers map[string]*bufconn.Listener // receivers and mail servers, by address
}

func newEnv(t *testing.T) *env {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	w := &env{t: t, store: store, peers: map[string]*bufconn.Listener{}}
	w.opts.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
		return w.peers[address].DialContext(ctx)
	}
	return w
}

// listen returns a listener in memory and the address by which deliveries reach it. In a
// bubble, time advances while they wait for it.
func (w *env) listen() (address string, listener net.Listener) {
	address = fmt.Sprintf("127.0.0.1:%d", len(w.peers)+1)
	w.peers[address] = bufconn.Listen(64 << 10)
	return address, w.peers[address]
}

// serve starts an HTTP server that runs until the end of the test.
func (w *env) serve(handler http.HandlerFunc) *httptest.Server {
	w.t.Helper()
	address, listener := w.listen()
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	s.Start()
	s.URL = "http://" + address
	w.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// createEvents creates n runs of a group, with one event each.
func (w *env) createEvents(group string, n int) {
	w.t.Helper()
	for range n {
		w.create(group)
	}
}

func (w *env) create(group string) run.ID {
	w.t.Helper()
	of := &run.Spec{Name: "one", Group: group, Tasks: map[string]*run.TaskSpec{
		"build": {Pool: "linux", Steps: []run.Step{{Run: "true"}}},
	}}
	x, faults := spec.Expand(of, func(_ string, t *run.TaskSpec) (string, error) { return t.Pool, nil })
	require.Empty(w.t, faults)
	r, err := w.store.CreateRun(w.t.Context(), records.NewRun{Spec: of, Plan: x.Plan, Tasks: x.Tasks})
	require.NoError(w.t, err)
	return r.ID
}

func (w *env) put(r *receiver, change func(*run.WebhookSpec)) run.Webhook {
	w.t.Helper()
	hook := run.WebhookSpec{Name: "ci", URL: r.URL + "/hook?token=sesame", Secret: secret, Enabled: true}
	if change != nil {
		change(&hook)
	}
	require.Empty(w.t, spec.ValidateWebhook(hook))
	out, _, err := w.store.PutWebhook(w.t.Context(), hook)
	require.NoError(w.t, err)
	return out
}

func (w *env) get() run.Webhook {
	w.t.Helper()
	hook, err := w.store.GetWebhook(w.t.Context(), "ci")
	require.NoError(w.t, err)
	return hook
}

func (w *env) await(condition func(run.Webhook) bool) run.Webhook {
	w.t.Helper()
	var hook run.Webhook
	testenv.Await(w.t, func() (bool, string) {
		hook = w.get()
		return condition(hook), fmt.Sprintf("%+v", hook)
	})
	return hook
}

// deliverResult is the result of Deliver.
type deliverResult struct {
	reason string
	err    error
}

// deliver runs Deliver until the test or stop ends it.
func (w *env) deliver() (ended <-chan deliverResult, stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan deliverResult, 1), make(chan struct{})
	d := webhooks.New(w.store, slog.New(slog.DiscardHandler), w.opts)
	go func() {
		defer close(done)
		reason, err := d.Deliver(ctx, "ci")
		out <- deliverResult{reason, err}
	}()
	stop = func() {
		cancel()
		<-done
	}
	w.t.Cleanup(stop)
	return out, stop
}
