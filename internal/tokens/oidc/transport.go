package oidc

import (
	"errors"
	"io"
	"net/http"

	"golang.org/x/time/rate"
)

// bounded bounds the size of answers.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, err
}

// throttled limits the rate of requests, which any client can cause with tokens whose
// keys do not exist.
type throttled struct {
	next  http.RoundTripper
	limit *rate.Limiter
}

// RoundTrip implements http.RoundTripper.
func (t throttled) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.limit.Allow() {
		return nil, errors.New("its keys were read a moment ago")
	}
	return t.next.RoundTrip(r)
}
