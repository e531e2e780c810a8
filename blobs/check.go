package blobs

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

const (
	// probeKey names the object that Check writes and removes.
	probeKey = "check/write"
	// probePeriod is how long the result of a write that succeeded is believed:
	// readiness is asked for every few seconds.
	probePeriod = time.Minute
)

// Check returns nil when the bucket answers and takes writes. It writes and removes
// an object, at most once a minute after a success. Errors: unavailable.
func (s *Store) Check(ctx context.Context) error {
	ok, err := s.bucket.IsAccessible(ctx)
	switch {
	case err != nil:
		return s.unusable("reach", err)
	case !ok:
		return run.Errorf(run.CodeUnavailable, "no bucket %s: create it first", s.name)
	}
	if last := s.written.Load(); last != nil && time.Since(*last) < probePeriod {
		return nil
	}
	if err := s.bucket.WriteAll(ctx, probeKey, []byte("written by the readiness check of Drover\n"), nil); err != nil {
		return s.unusable("write to", err)
	}
	// Another gateway may have removed the object already.
	if err := s.remove(ctx, probeKey); err != nil {
		return s.unusable("remove from", err)
	}
	now := time.Now()
	s.written.Store(&now)
	return nil
}

func (s *Store) unusable(what string, err error) error {
	if refusesCredentials(err) {
		return run.Errorf(run.CodeUnavailable, "%s the blob store %s: the credentials are refused: %w", what, s.name, err)
	}
	return run.Errorf(run.CodeUnavailable, "%s the blob store %s: %w", what, s.name, err)
}
