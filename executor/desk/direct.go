package desk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// directPause is how long archives are read through the gateway after the
// object store was out of reach, or said no: each try may take some seconds.
const directPause = time.Minute

// store reads archives straight from the object store, at URLs that the gateway
// signs. It knows nothing of the gateway's token.
type store struct {
	client     *http.Client
	allowPlain bool

	mu    sync.Mutex
	until time.Time // not to be asked before
}

// newStore returns a store. The transport is not the gateway's: a certificate
// or a proxy may be for that alone.
func newStore(allowPlain bool) *store {
	transport := newTransport()
	transport.DisableCompression = true // what is stored is what is asked for
	transport.ResponseHeaderTimeout = 15 * time.Second
	return &store{
		allowPlain: allowPlain,
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// usable reports whether the store is worth a try.
func (s *store) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().After(s.until)
}

// avoid has the gateway asked for a while.
func (s *store) avoid() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(directPause)
}

// open reads what a signed URL is of, from an offset on up to the size. No error
// tells the URL, which is as good as a password.
func (s *store) open(ctx context.Context, address string, offset, size int64) (io.ReadCloser, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("the gateway names no URL")
	case u.Scheme != "https" && (u.Scheme != "http" || !s.allowPlain && !loopback(u.Hostname())):
		return nil, fmt.Errorf("%s would be read in the clear", u.Host)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("making a request to %s: %w", u.Host, withoutURL(err))
	}
	status := http.StatusOK
	if offset > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		status = http.StatusPartialContent
	}
	response, err := s.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", u.Host, withoutURL(err))
	}
	switch {
	case response.StatusCode != status:
		err = fmt.Errorf("%s answers with HTTP status %d", u.Host, response.StatusCode)
	case offset > 0 && !strings.HasPrefix(response.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)):
		err = fmt.Errorf("%s gives another range than was asked for", u.Host)
	case response.ContentLength != size-offset:
		err = fmt.Errorf("%s answers with %d bytes, not %d", u.Host, response.ContentLength, size-offset)
	default:
		return response.Body, nil
	}
	_ = response.Body.Close() // the error to tell is the first
	return nil, err
}

// withoutURL leaves out of an error what it tells of the request.
func withoutURL(err error) error {
	if told, ok := errors.AsType[*url.Error](err); ok {
		return told.Err
	}
	return err
}
