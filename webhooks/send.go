package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/message"
)

// Fixed bounds of an attempt.
const (
	dialTimeout = 5 * time.Second
	// maxAnswer is how much of an answer is read, so that its connection can be
	// reused. The content is ignored.
	maxAnswer      = 64 << 10
	maxHeaderBytes = 64 << 10
)

// newClient returns a client for one receiver. It treats a redirect like any
// other answer: following it would send events to an address that no admin
// configured.
func (d *Deliverer) newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            d.opts.Dial,
			TLSHandshakeTimeout:    dialTimeout,
			MaxIdleConns:           1,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// deliveryError reports why the receiver did not accept a batch.
type deliveryError struct {
	reason string
	after  time.Duration // pause that the receiver requested
}

// Error implements error.
func (e *deliveryError) Error() string { return e.reason }

// batch is the content of one request.
type batch struct {
	id     string
	body   []byte
	last   int64   // event
	letter *letter // instead of the body, of an e-mail
}

// newMessage returns the batch of one event, for a format with messages.
func (d *Deliverer) newMessage(ctx context.Context, w records.Delivery, e run.Event) (batch, error) {
	m, err := d.compose(ctx, w.Name, e)
	if err != nil {
		return batch{}, err
	}
	return render(w, m, deliveryID(w.Name, e), e.Number, e.Time)
}

// render writes a message in the format of a webhook.
func render(w records.Delivery, m message.Data, id string, last int64, at time.Time) (b batch, err error) {
	b.id, b.last = id, last
	switch w.Format {
	case run.WebhookSlack:
		b.body, err = slackBody(w.Template, m)
	case run.WebhookTeams:
		b.body, err = teamsBody(w.Template, m)
	case run.WebhookEmail:
		b.letter, err = newLetter(w.Template, m, at)
	case run.WebhookDrover:
		err = fmt.Errorf("format %s has no messages", w.Format)
	default:
		err = fmt.Errorf("format %s is not known", w.Format)
	}
	return b, err
}

func newBatch(name string, events []run.Event) (batch, error) {
	body, err := encode(name, events)
	return batch{id: deliveryID(name, events...), body: body, last: events[len(events)-1].Number}, err
}

func encode(name string, events []run.Event) ([]byte, error) {
	payload := api.WebhookDelivery{Webhook: name, Events: make([]api.Event, len(events))}
	for i, e := range events {
		payload.Events[i] = api.EventOf(e)
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encode events: %w", err)
	}
	return body, nil
}

// send makes one attempt. Unless ctx has ended, an error comes from the
// receiver or from the connection to it.
func (d *Deliverer) send(ctx context.Context, client *http.Client, w records.Delivery, b batch) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.opts.Timeout, errSlow)
	defer cancel()
	if w.Format == run.WebhookEmail {
		return d.mail(ctx, w, b)
	}
	return d.post(ctx, client, w, b)
}

func (d *Deliverer) post(ctx context.Context, client *http.Client, w records.Delivery, b batch) error {
	address := w.URL
	if w.Format.SecretURL() {
		address = w.Secret.Reveal()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(b.body))
	if err != nil {
		return &deliveryError{reason: "the URL cannot be called"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", d.opts.UserAgent)
	req.Header.Set(HeaderDelivery, b.id)
	if !w.Format.Messages() {
		timestamp := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set(HeaderWebhook, w.Name)
		req.Header.Set(HeaderTimestamp, timestamp)
		req.Header.Set(HeaderSignature, Sign(w.Secret, timestamp, b.body))
	}
	resp, err := client.Do(req)
	if err != nil {
		return &deliveryError{reason: "no answer: " + errorReason(ctx, err)}
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.CopyN(io.Discard, resp.Body, maxAnswer); err != nil && !errors.Is(err, io.EOF) && context.Cause(ctx) != nil {
		return &deliveryError{reason: "the answer did not end: " + errorReason(ctx, err)}
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return nil
	}
	return &deliveryError{
		reason: fmt.Sprintf("the receiver answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)),
		after:  min(retryAfter(resp.Header.Get("Retry-After"), time.Now()), d.opts.MaxRetryAfter),
	}
}

var errSlow = errors.New("timeout")

// errorReason returns the error's text without the URL, which may contain a password
// in its query.
func errorReason(ctx context.Context, err error) string {
	if errors.Is(context.Cause(ctx), errSlow) {
		return errSlow.Error()
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return err.Error()
}

// retryAfter parses a Retry-After header: seconds, or a date.
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if n, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(0, time.Duration(n)*time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
