// Package remote is the client of a gateway for the command line. It adds to the
// generated client the token, errors, event streams, and retries while the
// gateway is unavailable.
package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// callTimeout bounds one call that does not stream; the gateway's own timeout is
// 30 s.
const callTimeout = 40 * time.Second

// maxAnswer bounds the size of an answer: a run of 10,000 tasks with many steps
// has some tens of megabytes.
const maxAnswer = 256 << 20

// Options are the settings of a Client. Server is required.
type Options struct {
	Server string
	Token  string
	// TokenSource returns the token for a call, in place of Token; nil means Token.
	TokenSource func(ctx context.Context) (string, error)
	// Transport makes the connections; nil means connections of this client's own,
	// with the settings of http.DefaultTransport.
	Transport http.RoundTripper
	UserAgent string
	// RetryTimeout is how long streams and Await calls retry without an answer before
	// they return an error: 2 minutes.
	RetryTimeout time.Duration
	// Silence is how long an open stream may be silent before it counts as broken.
	// The gateway sends a heartbeat every 15 s; the default is 45 s.
	Silence time.Duration
	// Pause is the pause before the first retry; each further pause is twice as
	// long, up to 20 times the first: 100 ms.
	Pause time.Duration
}

// Client is a client of one gateway. It is safe for concurrent use.
type Client struct {
	*caller
	fleetCalls
	registryCalls
	roleGrantCalls
	scheduleCalls
}

// caller makes calls. The calls on a kind of resource have a type of their own.
type caller struct {
	api    *api.Client
	direct *http.Client // for object stores, to which a gateway redirects
	opts   Options
}

// Answer is an answer, decoded and in its original form: fields of a newer
// gateway are only in Raw.
type Answer[T any] struct {
	Value T
	Raw   json.RawMessage
}

// New returns a client. Errors: invalid (Server is not an http URL).
func New(opts Options) (*Client, error) {
	u, err := url.Parse(opts.Server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, run.Errorf(run.CodeInvalid, "%q is not the URL of a server, such as http://127.0.0.1:8080", opts.Server)
	}
	if u.User != nil {
		return nil, run.Errorf(run.CodeInvalid, "the URL of the server must not contain credentials")
	}
	if opts.Transport == nil {
		// Connections of its own: a request on http.DefaultTransport can fail when other
		// code of the process closes the idle connections there.
		opts.Transport = http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // net/http says so
	}
	opts.RetryTimeout = cmp.Or(opts.RetryTimeout, 2*time.Minute)
	opts.Silence = cmp.Or(opts.Silence, 45*time.Second)
	opts.Pause = cmp.Or(opts.Pause, retryFirst)
	// Redirects are followed only by calls that ask for one: a request to another
	// server must not contain the token.
	base := &caller{opts: opts, direct: newDirect()}
	c := &Client{caller: base, fleetCalls: fleetCalls{base}, registryCalls: registryCalls{base}, roleGrantCalls: roleGrantCalls{base}, scheduleCalls: scheduleCalls{base}}
	gateway := &http.Client{Transport: opts.Transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch {
		case via[0].Header.Get("Drover-Direct") == "true":
			return http.ErrUseLastResponse
		case len(via) >= maxRedirects:
			return errRedirects
		}
		return nil
	}}
	c.api, err = api.NewClient(opts.Server, api.WithHTTPClient(gateway),
		api.WithRequestEditorFn(leaveOutEmpty), api.WithRequestEditorFn(c.identify))
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	return c, nil
}

// maxRedirects bounds the redirects in a row by a gateway, or by a proxy before
// it.
const maxRedirects = 10

var errRedirects = errors.New("too many redirects")

// newDirect returns a client for object stores with short timeouts: the gateway
// serves all archives as a fallback.
func newDirect() *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 15 * time.Second,
			DisableKeepAlives:  true, // one artifact is read from a store
			DisableCompression: true, // the stored bytes must not change
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Server returns the URL of the gateway.
func (c *Client) Server() string { return c.opts.Server }

func (c *Client) identify(ctx context.Context, req *http.Request) error {
	token := c.opts.Token
	if c.opts.TokenSource != nil {
		var err error
		if token, err = c.opts.TokenSource(ctx); err != nil {
			return err
		}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if c.opts.UserAgent != "" {
		req.Header.Set("User-Agent", c.opts.UserAgent)
	}
	return nil
}

// leaveOutEmpty removes parameters without a value: the generated client sends
// parameters that are not set, and the gateway refuses them.
func leaveOutEmpty(_ context.Context, req *http.Request) error {
	query := req.URL.Query()
	for name, values := range query {
		if query[name] = slices.DeleteFunc(values, func(v string) bool { return v == "" }); len(query[name]) == 0 {
			delete(query, name)
		}
	}
	req.URL.RawQuery = query.Encode()
	maps.DeleteFunc(req.Header, func(_ string, values []string) bool { return len(values) == 1 && values[0] == "" })
	return nil
}

// call makes one call and reads its answer.
func call[T any](ctx context.Context, c *caller, do func(context.Context) (*http.Response, error)) (Answer[T], error) {
	var answer Answer[T]
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	resp, err := do(ctx)
	if err != nil {
		return answer, c.unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return answer, c.statusError(resp, body)
	}
	if resp.StatusCode == http.StatusNoContent {
		return answer, nil
	}
	if err := json.Unmarshal(body, &answer.Value); err != nil {
		return answer, &run.Error{
			Code: run.CodeInternal, Message: fmt.Sprintf("%s answers, but not as a Drover gateway does", c.opts.Server), Err: err,
		}
	}
	answer.Raw = body
	return answer, nil
}

// errTimeout is the cause of calls that timed out.
var errTimeout = errors.New("the request timed out")
