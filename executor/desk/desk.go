// Package desk is the executor's side of the gateway's door for executors:
// run.Desk over HTTP.
package desk

import (
	"bytes"
	"compress/gzip"
	"context"
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
	// headerPass brings a token in the place of one that expires.
	headerPass = "Drover-Pass"
	// gzipFrom is the length of a body from which packing it pays.
	gzipFrom = 2 << 10
	// maxAnswer bounds what is read of an answer: a definition is at most
	// about as long as the request that submitted it, unless it was expanded.
	maxAnswer = 64 << 20
	// connections is how many idle connections are kept: tasks of one
	// executor make their calls side by side.
	connections = 32
	// transferBuffer is how much of an archive is written at once.
	transferBuffer = 64 << 10
)

// Options are the settings of a Client. The zero value of each means its
// default.
type Options struct {
	// Timeout is for each call: 15 s. A call that takes longer is unavailable
	// and can be tried again: all calls are idempotent.
	Timeout time.Duration
	// Transport carries the calls; nil means one of the client's own.
	Transport http.RoundTripper
	// AllowPlain allows http to addresses that are not loopback. Definitions
	// hold secrets, so this is for networks that nobody else listens to.
	AllowPlain bool
	// OnPass is told the token that the gateway gives in the place of one that
	// expires. Nil: it is not kept.
	OnPass func(token string)
	// OnIndirect is told why an archive is read through the gateway which could
	// have been read from the object store. Nil: nobody is.
	OnIndirect func(err error)
}

// Client is run.Desk over HTTP. It is safe for concurrent use. Besides the
// errors that run.Desk names, calls fail with CodeUnavailable where the
// gateway is out of reach, and with CodeUnauthenticated where it does not take
// the token; CodeForbidden always means that the executor was removed.
type Client struct {
	api       *api.Client
	transport http.RoundTripper
	timeout   time.Duration
	onPass    func(string)
	packers   sync.Pool

	store      *store
	onIndirect func(error)
}

var _ run.Desk = (*Client)(nil)

// New returns a client of the gateway at baseURL, such as
// https://drover.example.com. It makes no call. The bearer token is asked for with
// every call, since it may be replaced; "" is none.
func New(baseURL string, token func() string, opts Options) (*Client, error) {
	if err := checkURL(baseURL, opts.AllowPlain); err != nil {
		return nil, err
	}
	c := &Client{transport: opts.Transport, timeout: opts.Timeout, onPass: opts.OnPass, store: newStore(opts.AllowPlain), onIndirect: opts.OnIndirect}
	if c.onIndirect == nil {
		c.onIndirect = func(error) {}
	}
	if c.transport == nil {
		c.transport = newTransport()
	}
	if c.timeout == 0 {
		c.timeout = 15 * time.Second
	}
	client := &http.Client{
		Transport: c.transport,
		// A redirect would carry the token, and secrets, to somewhere else.
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
		return nil, fmt.Errorf("making a client of %s: %w", baseURL, err)
	}
	return c, nil
}

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections,
		WriteBufferSize: transferBuffer, // of what an archive is sent in
	}
}

// checkURL refuses addresses that secrets must not be sent over.
func checkURL(baseURL string, allowPlain bool) error {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return &run.Error{Code: run.CodeInvalid, Message: "the address of the gateway is not a URL", Err: err}
	case u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return run.Errorf(run.CodeInvalid, "the address of the gateway must be a http or https URL, not %q", baseURL)
	case u.Scheme == "http" && !allowPlain && !loopback(u.Hostname()):
		return run.Errorf(run.CodeInvalid, "secrets would cross the network in the clear to %s: https is needed", u.Host)
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

// Register implements run.Desk.
func (c *Client) Register(ctx context.Context, e run.Executor) (run.Wanted, error) {
	body := api.Registration{
		ID: e.ID, JournalID: e.JournalID, Pool: e.Pool, Driver: e.Driver, OS: e.OS, Arch: e.Arch, Labels: e.Labels,
		Privileged: e.Privileged, Slots: e.Slots, SlotsUsed: e.SlotsUsed, Version: e.Version,
		Set: e.Set, Temporary: e.Temporary, Draining: e.State == run.ExecutorDraining,
	}
	if e.RemoveAfter > 0 {
		body.RemoveAfter = e.RemoveAfter.String()
	}
	var w api.Wanted
	err := c.call(ctx, "registering the executor", c.api.DeskRegisterWithBody, body, &w)
	return wanted(w), err
}

// Renew implements run.Desk.
func (c *Client) Renew(ctx context.Context, r run.Renewal) (run.Wanted, error) {
	body := api.Renewal{
		Executor: r.Executor, Set: r.Set, JournalID: r.JournalID, SlotsUsed: r.SlotsUsed, Draining: r.Draining, Drained: r.Drained,
	}
	var w api.Wanted
	err := c.call(ctx, "renewing the executor", c.api.DeskRenewWithBody, body, &w)
	return wanted(w), err
}

func wanted(w api.Wanted) run.Wanted { return run.Wanted{Drain: w.Drain} }

// Claim implements run.Desk.
func (c *Client) Claim(ctx context.Context, r run.ClaimRequest) (run.Definition, error) {
	var d run.Definition
	body := api.ClaimRequest{
		Key: r.Key, Executor: r.Executor, Set: r.Set, JournalID: r.JournalID, Knows: r.Knows, Ticket: r.Ticket,
	}
	err := c.call(ctx, "claiming the task", c.api.DeskClaimWithBody, body, &d)
	return d, err
}

// Ship implements run.Desk.
func (c *Client) Ship(ctx context.Context, b run.FrameBatch) error {
	return c.call(ctx, "shipping frames", c.api.DeskShipWithBody, b, nil)
}

// ClaimStates implements run.Desk.
func (c *Client) ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	if keys == nil {
		keys = []run.Key{}
	}
	var answer api.ClaimStates
	body := api.ClaimStatesRequest{Executor: executor, Keys: keys}
	if err := c.call(ctx, "asking for the states of claims", c.api.DeskClaimStatesWithBody, body, &answer); err != nil {
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

// call sends body and reads the answer into v, unless v is nil.
func (c *Client) call(ctx context.Context, doing string, m method, body, v any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	data, edit, err := c.pack(data)
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
	if pass := response.Header.Get(headerPass); pass != "" && c.onPass != nil {
		c.onPass(pass)
	}
	if v == nil || response.StatusCode == http.StatusNoContent { // the answer of an older gateway
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(v); err != nil {
		return fmt.Errorf("%s: reading the answer: %w", doing, transportError(ctx, limited, err))
	}
	return nil
}

// pack compresses data where it is long, and returns what marks the request.
func (c *Client) pack(data []byte) ([]byte, api.RequestEditorFn, error) {
	if len(data) < gzipFrom {
		return data, func(context.Context, *http.Request) error { return nil }, nil
	}
	var out bytes.Buffer
	packer, ok := c.packers.Get().(*gzip.Writer)
	if !ok {
		var err error
		if packer, err = gzip.NewWriterLevel(nil, gzip.BestSpeed); err != nil {
			return nil, nil, err
		}
	}
	defer c.packers.Put(packer)
	packer.Reset(&out)
	_, err := packer.Write(data)
	if err = errors.Join(err, packer.Close()); err != nil {
		return nil, nil, err
	}
	return out.Bytes(), func(_ context.Context, r *http.Request) error {
		r.Header.Set("Content-Encoding", "gzip")
		return nil
	}, nil
}
