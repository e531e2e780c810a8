// Package controlplane is the client of the gateway's executor API: run.ExecutorAPI over
// HTTP.
package controlplane

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

const (
	mediaJSON = "application/json"
	// headerToken carries a token that replaces one that expires.
	headerToken = "Drover-Token"
	// gzipFrom is the length of a body from which compression pays.
	gzipFrom = 2 << 10
	// maxAnswer bounds how much of a response is read. A definition is at most about
	// as long as the request that submitted it, unless it was expanded.
	maxAnswer = 64 << 20
	// connections is how many idle connections are kept: the tasks of one executor
	// make calls concurrently.
	connections = 32
	// transferBuffer is how much of an archive is written at once.
	transferBuffer = 64 << 10
)

// Options are the settings of a Client. The zero value of each is its default.
type Options struct {
	// Timeout limits each call; 0 means 15 s. A call that takes longer fails as
	// unavailable and can be retried: all calls are idempotent.
	Timeout time.Duration
	// Transport carries the calls; nil means a transport of the client.
	Transport http.RoundTripper
	// Authorities returns the authorities of the gateway's certificate. It is called
	// for every request, since they may be replaced. Nil: those of the host.
	Authorities func() *x509.CertPool
	// AllowPlain allows http to addresses that are not loopback. Definitions contain
	// secrets, so set it only for trusted networks.
	AllowPlain bool
	// OnToken receives a token that replaces one that expires. Nil: the token is
	// dropped.
	OnToken func(token string)
	// OnIndirect receives the error if an archive is read through the gateway because
	// the object store can not be read. Nil: the error is dropped.
	OnIndirect func(err error)
}

// Client is run.ExecutorAPI over HTTP. It is safe for concurrent use. Besides the
// errors of run.ExecutorAPI, calls fail with CodeUnavailable if the gateway is
// unreachable, and with CodeUnauthenticated if it rejects the token; CodeForbidden
// always means that the executor was removed.
type Client struct {
	api         *api.Client
	transport   http.RoundTripper
	timeout     time.Duration
	onToken     func(string)
	compressors sync.Pool

	store      *store
	onIndirect func(error)
}

var _ run.ExecutorAPI = (*Client)(nil)

// New returns a client of the gateway at baseURL, such as
// https://drover.example.com. It makes no call. The function token is called for
// every request, since the token may be replaced; "" means none.
func New(baseURL string, token func() string, opts Options) (*Client, error) {
	if err := checkURL(baseURL, opts.AllowPlain); err != nil {
		return nil, err
	}
	c := &Client{transport: opts.Transport, timeout: opts.Timeout, onToken: opts.OnToken, store: newStore(opts.AllowPlain), onIndirect: opts.OnIndirect}
	if c.onIndirect == nil {
		c.onIndirect = func(error) {}
	}
	switch {
	case c.transport == nil && opts.Authorities != nil:
		c.transport = &trusting{authorities: opts.Authorities}
	case c.transport == nil:
		c.transport = newTransport()
	}
	if c.timeout == 0 {
		c.timeout = 15 * time.Second
	}
	client := &http.Client{
		Transport: c.transport,
		// A redirect would send the token, and secrets, to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var err error
	c.api, err = api.NewClient(baseURL, api.WithHTTPClient(client), api.WithRequestEditorFn(
		func(_ context.Context, r *http.Request) error {
			if now := token(); now != "" {
				r.Header.Set("Authorization", "Bearer "+now)
			}
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("create a client of %s: %w", baseURL, err)
	}
	return c, nil
}

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections,
		WriteBufferSize: transferBuffer, // for the content of archives
	}
}

// checkURL rejects URLs that would send secrets unencrypted.
func checkURL(baseURL string, allowPlain bool) error {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return &run.Error{Code: run.CodeInvalid, Message: "the address of the gateway is not a URL", Err: err}
	case u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return run.Errorf(run.CodeInvalid, "the address of the gateway must be a http or https URL, not %q", baseURL)
	case u.Scheme == "http" && !allowPlain && !loopback(u.Hostname()):
		return run.Errorf(run.CodeInvalid, "secrets would be sent unencrypted to %s: https is required", u.Host)
	}
	return nil
}

func loopback(name string) bool {
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// Close closes idle connections.
func (c *Client) Close() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	c.store.client.CloseIdleConnections()
}

// Register implements run.ExecutorAPI.
func (c *Client) Register(ctx context.Context, e run.Executor) (run.DesiredState, error) {
	body := api.Registration{
		ID: e.ID, JournalID: e.JournalID, Pool: e.Pool, Driver: e.Driver, OS: e.OS, Arch: e.Arch, Labels: e.Labels,
		Privileged: e.Privileged, Slots: e.Slots, SlotsUsed: e.SlotsUsed, Version: e.Version, Features: e.Features,
		Set: e.Set, Temporary: e.Temporary, Draining: e.State == run.ExecutorDraining,
	}
	if e.RemoveAfter > 0 {
		body.RemoveAfter = e.RemoveAfter.String()
	}
	var w api.DesiredState
	err := c.call(ctx, "register the executor", c.api.RegisterExecutorWithBody, body, &w)
	return desiredState(w), err
}

// Renew implements run.ExecutorAPI.
func (c *Client) Renew(ctx context.Context, r run.Renewal) (run.DesiredState, error) {
	body := api.Renewal{
		Executor: r.Executor, Set: r.Set, JournalID: r.JournalID, SlotsUsed: r.SlotsUsed, Draining: r.Draining, Drained: r.Drained,
	}
	var w api.DesiredState
	err := c.call(ctx, "renew the registration", c.api.RenewExecutorWithBody, body, &w)
	return desiredState(w), err
}

func desiredState(w api.DesiredState) run.DesiredState {
	return run.DesiredState{Drain: w.Drain, Labels: w.Labels, LabelsOnly: w.LabelsOnly, Slots: w.Slots}
}

// Claim implements run.ExecutorAPI.
func (c *Client) Claim(ctx context.Context, r run.ClaimRequest) (run.Definition, error) {
	var d run.Definition
	body := api.ClaimRequest{
		Key: r.Key, Executor: r.Executor, Set: r.Set, JournalID: r.JournalID, SpecVersion: r.SpecVersion, ClaimProof: r.ClaimProof,
	}
	err := c.call(ctx, "claim the task", c.api.ClaimTaskWithBody, body, &d)
	return d, err
}

// AppendFrames implements run.ExecutorAPI.
func (c *Client) AppendFrames(ctx context.Context, b run.FrameBatch) error {
	return c.call(ctx, "append frames", c.api.AppendFramesWithBody, b, nil)
}

// ClaimStates implements run.ExecutorAPI.
func (c *Client) ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	if keys == nil {
		keys = []run.Key{}
	}
	var answer api.ClaimStates
	body := api.ClaimStatesRequest{Executor: executor, Keys: keys}
	if err := c.call(ctx, "get claim states", c.api.GetClaimStatesWithBody, body, &answer); err != nil {
		return nil, err
	}
	states := make(map[run.Key]run.ClaimState, len(answer.States))
	for _, s := range answer.States {
		states[s.Key] = run.ClaimState(s.State)
	}
	return states, nil
}

// method is a method of the generated client.
type method func(ctx context.Context, media string, body io.Reader, edit ...api.RequestEditorFn) (*http.Response, error)

// call sends body and decodes the response into v, unless v is nil.
func (c *Client) call(ctx context.Context, doing string, m method, body, v any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	data, edit, err := c.compress(data)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	response, err := m(limited, mediaJSON, bytes.NewReader(data), edit)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, transportError(ctx, limited, err))
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if err := answerError(response); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if next := response.Header.Get(headerToken); next != "" && c.onToken != nil {
		c.onToken(next)
	}
	if v == nil || response.StatusCode == http.StatusNoContent { // an older gateway sends no body
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(v); err != nil {
		return fmt.Errorf("%s: read the response: %w", doing, transportError(ctx, limited, err))
	}
	return nil
}

// compress compresses long data, and returns the editor that marks the request as
// compressed.
func (c *Client) compress(data []byte) ([]byte, api.RequestEditorFn, error) {
	if len(data) < gzipFrom {
		return data, func(context.Context, *http.Request) error { return nil }, nil
	}
	var out bytes.Buffer
	compressor, ok := c.compressors.Get().(*gzip.Writer)
	if !ok {
		var err error
		if compressor, err = gzip.NewWriterLevel(nil, gzip.BestSpeed); err != nil {
			return nil, nil, err
		}
	}
	defer c.compressors.Put(compressor)
	compressor.Reset(&out)
	_, err := compressor.Write(data)
	if err = errors.Join(err, compressor.Close()); err != nil {
		return nil, nil, err
	}
	return out.Bytes(), func(_ context.Context, r *http.Request) error {
		r.Header.Set("Content-Encoding", "gzip")
		return nil
	}, nil
}
