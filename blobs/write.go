package blobs

import (
	"bytes"
	"context"
	"errors"
	"io"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/drover-run/drover/run"
)

// objectWriter writes one object, which is invisible before commit. The caller
// must call either commit or discard.
type objectWriter interface {
	io.Writer
	// commit makes the object visible, and returns once it is durable. It
	// returns errExists if the object had to be new and exists.
	commit(ctx context.Context) error
	discard()
}

// create begins an object. With ifAbsent it must be new; otherwise it replaces
// the object of that name.
func (s *Store) create(ctx context.Context, key string, ifAbsent bool, opts blob.WriterOptions) (objectWriter, error) {
	if s.dir != nil {
		return s.dir.create(key, ifAbsent)
	}
	ctx, cancel := context.WithCancel(ctx)
	opts.IfNotExist, opts.DisableContentTypeDetection = ifAbsent, true
	w, err := s.bucket.NewWriter(ctx, key, &opts)
	if err != nil {
		cancel()
		return nil, err
	}
	return &bucketWriter{Writer: w, cancel: cancel}, nil
}

// bucketWriter is an objectWriter into an object store.
type bucketWriter struct {
	*blob.Writer
	cancel context.CancelFunc
}

// commit implements objectWriter.
func (w *bucketWriter) commit(context.Context) error {
	defer w.cancel()
	err := w.Close()
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return errExists
	}
	return err
}

// discard implements objectWriter: it cancels first, because a close without a
// cancellation would commit.
func (w *bucketWriter) discard() {
	w.cancel()
	_ = w.Close() // it returns the cancellation
}

// put writes a whole object.
func (s *Store) put(ctx context.Context, key string, data []byte, ifAbsent bool) error {
	w, err := s.create(ctx, key, ifAbsent, blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		w.discard()
		return err
	}
	return w.commit(ctx)
}

// putOnce writes an object unless one of its name has the same content. It
// replaces an incomplete object, which a writer without a sync left before a
// loss of power. Errors: conflict (the object has other content), unavailable.
func (s *Store) putOnce(ctx context.Context, key string, data []byte, whole func([]byte) bool) error {
	err := s.put(ctx, key, data, true)
	if errors.Is(err, errExists) {
		err = s.putAgain(ctx, key, data, whole)
	}
	if err != nil {
		return run.Errorf(ownCode(err), "write blob %s: %w", key, err)
	}
	return nil
}

// putAgain is putOnce for an object that exists.
func (s *Store) putAgain(ctx context.Context, key string, data []byte, whole func([]byte) bool) error {
	was, err := s.bucket.ReadAll(ctx, key)
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		// An object store rejects a second writer before the first one's object
		// can be read.
		return run.Errorf(run.CodeUnavailable, "the object exists and cannot be read yet")
	case err != nil:
		return err
	case bytes.Equal(was, data) && s.dir != nil:
		return s.dir.syncExisting(key)
	case bytes.Equal(was, data):
		return nil
	case whole(was):
		return run.Errorf(run.CodeConflict, "the object exists with other content")
	}
	return s.put(ctx, key, data, false)
}
