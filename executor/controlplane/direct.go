package controlplane

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

// directPause is how long archives are read through the gateway after a read from
// the object store failed: each try may take some seconds.
const directPause = time.Minute

// store reads archives directly from the object store, at URLs that the gateway
// signs. It never sends the gateway's token.
type store struct {
	client     *http.Client
	allowPlain bool

	mu    sync.Mutex
	until time.Time // not used before
}

// newStore returns a store. Its transport is not the gateway's, whose certificates
// or proxy may be specific to the gateway.
func newStore(allowPlain bool) *store {
	transport := newTransport()
	transport.DisableCompression = true // the stored bytes are read unchanged
	transport.ResponseHeaderTimeout = 15 * time.Second
	return &store{
		allowPlain: allowPlain,
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// usable reports whether the store may be tried.
func (s *store) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().After(s.until)
}

// avoid makes the client read through the gateway for directPause.
func (s *store) avoid() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(directPause)
}

// open reads the object of a signed URL from an offset up to the size. No error
// contains the URL, which grants access like a password.
func (s *store) open(ctx context.Context, address string, offset, size int64) (io.ReadCloser, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("the gateway sent no URL")
	case u.Scheme != "https" && (u.Scheme != "http" || !s.allowPlain && !loopback(u.Hostname())):
		return nil, fmt.Errorf("%s would be read unencrypted", u.Host)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("create a request to %s: %w", u.Host, withoutURL(err))
	}
	status := http.StatusOK
	if offset > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		status = http.StatusPartialContent
	}
	response, err := s.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", u.Host, withoutURL(err))
	}
	switch {
	case response.StatusCode != status:
		err = fmt.Errorf("%s answers with HTTP status %d", u.Host, response.StatusCode)
	case offset > 0 && !strings.HasPrefix(response.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)):
		err = fmt.Errorf("%s answers with another range than requested", u.Host)
	case response.ContentLength != size-offset:
		err = fmt.Errorf("%s answers with %d bytes, not %d", u.Host, response.ContentLength, size-offset)
	default:
		return response.Body, nil
	}
	_ = response.Body.Close() // the first error is the one to return
	return nil, err
}

// withoutURL removes the URL of the request from an error.
func withoutURL(err error) error {
	if reported, ok := errors.AsType[*url.Error](err); ok {
		return reported.Err
	}
	return err
}
