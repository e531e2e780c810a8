// Package remote speaks to a gateway for the command line: it adds what the
// generated client leaves open, which are the token, the errors, the event
// streams, and patience with a gateway that is away for a while.
package remote

import (
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

// callTimeout bounds one call that does not stream; the gateway gives up
// after 30 s.
const callTimeout = 40 * time.Second

// maxAnswer bounds what is read of one answer: a run of 10,000 tasks of many
// steps has some tens of megabytes.
const maxAnswer = 256 << 20

// Options say where the gateway is. Server is required.
type Options struct {
	Server string
	Token  string
	// Transport makes the connections; nil means http.DefaultTransport.
	Transport http.RoundTripper
	UserAgent string
	// Patience is how long streams and Await go on without any answer before
	// they give up: 2 minutes.
	Patience time.Duration
	// Silence is how long an open stream may be silent before it counts as
	// broken. The gateway sends something every 15 s; the default is 45 s.
	Silence time.Duration
	// Pause is the first pause before another attempt; each is twice as long
	// as the one before, up to 20 times the first: 100 ms.
	Pause time.Duration
}

// Client is a client of one gateway. It is safe for concurrent use.
type Client struct {
	api    *api.Client
	direct *http.Client // of object stores, to which a gateway sends
	opts   Options
}

// Answer is an answer as it was read and as it came: what a newer gateway
// says, and this build does not know, is in Raw alone.
type Answer[T any] struct {
	Value T
	Raw   json.RawMessage
}

// New returns a client. Errors: invalid (a server that is no http URL).
func New(opts Options) (*Client, error) {
	u, err := url.Parse(opts.Server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, run.Errorf(run.CodeInvalid, "%q is not the URL of a server, such as http://127.0.0.1:8080", opts.Server)
	}
	if u.User != nil {
		return nil, run.Errorf(run.CodeInvalid, "credentials do not belong into the URL of the server")
	}
	if opts.Transport == nil {
		opts.Transport = http.DefaultTransport
	}
	opts.Patience = orDefault(opts.Patience, 2*time.Minute)
	opts.Silence = orDefault(opts.Silence, 45*time.Second)
	opts.Pause = orDefault(opts.Pause, 100*time.Millisecond)
	// What sends elsewhere for an artifact is followed by whoever asked for that: a
	// request to another server must not bring the token.
	c := &Client{opts: opts, direct: newDirect()}
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
		return nil, fmt.Errorf("making the client: %w", err)
	}
	return c, nil
}

// maxRedirects is how often in a row a gateway, or who stands before it, may
// send elsewhere.
const maxRedirects = 10

var errRedirects = errors.New("it sends from one place to the next")

// newDirect returns a client of object stores, which are given up on soon: all
// can be had through the gateway.
func newDirect() *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 15 * time.Second,
			DisableKeepAlives:  true, // one artifact is read of it
			DisableCompression: true, // what is stored is what is asked for
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Server returns the URL of the gateway.
func (c *Client) Server() string { return c.opts.Server }

func (c *Client) identify(_ context.Context, req *http.Request) error {
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	if c.opts.UserAgent != "" {
		req.Header.Set("User-Agent", c.opts.UserAgent)
	}
	return nil
}

// leaveOutEmpty removes parameters without a value: the generated client sends
// those that are not set, and the gateway refuses them.
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
func call[T any](ctx context.Context, c *Client, do func(context.Context) (*http.Response, error)) (Answer[T], error) {
	var answer Answer[T]
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errSlow)
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
		return answer, c.refused(resp, body)
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

// errSlow is the cause of calls that took too long.
var errSlow = errors.New("it took too long")
