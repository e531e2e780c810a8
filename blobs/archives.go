package blobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/drover-run/drover/run"
)

// archivePart is the size of a part of an upload to an object store;
// archiveParts parts are in memory at a time.
const (
	archivePart  = 8 << 20
	archiveParts = 2
	// archiveBuffer is the buffer size for reads and writes.
	archiveBuffer = 256 << 10
)

// NewObject returns the name of a new archive. It is random, so that it cannot
// be guessed, and is never used again.
func (s *Store) NewObject() string { return strings.ToLower(rand.Text()) }

// PutArchive stores content up to its end. If reading fails, or ctx ends, no
// object of that name exists. Errors: unavailable, and the errors of content
// unchanged.
func (s *Store) PutArchive(ctx context.Context, object string, content io.Reader) error {
	key, err := archiveKey(object)
	if err != nil {
		return err
	}
	w, err := s.create(ctx, key, true, blob.WriterOptions{
		BufferSize: archivePart, MaxConcurrency: archiveParts, ContentType: "application/zstd",
	})
	if err != nil {
		return run.Errorf(codeOf(err), "write archive %s: %w", object, err)
	}
	from := &trackingReader{r: content}
	if _, err = io.CopyBuffer(struct{ io.Writer }{w}, from, make([]byte, archiveBuffer)); err != nil {
		w.discard()
	} else {
		err = w.commit(ctx)
	}
	switch {
	case from.err != nil:
		return from.err
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return run.Errorf(run.CodeCanceled, "write archive %s: %w", object, context.Cause(ctx))
	}
	return run.Errorf(codeOf(err), "write archive %s: %w", object, err)
}

// trackingReader stores the error of a reader.
type trackingReader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (f *trackingReader) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// GetArchive reads an archive from an offset. Errors: not_found, invalid (the
// offset is behind its end), unavailable.
func (s *Store) GetArchive(ctx context.Context, object string, offset int64) (io.ReadCloser, error) {
	key, err := archiveKey(object)
	if err != nil {
		return nil, err
	}
	r, err := s.bucket.NewRangeReader(ctx, key, offset, -1, nil)
	if err != nil {
		// Some object stores reject an empty range at the end.
		if a, missing := s.bucket.Attributes(ctx, key); missing == nil && offset > 0 && a.Size == offset {
			return io.NopCloser(strings.NewReader("")), nil
		}
		return nil, run.Errorf(codeOf(err), "read archive %s: %w", object, err)
	}
	return r, nil
}

// SignArchive returns a URL that allows its holder to read an archive until it
// expires, or "" if the store signs no URLs. Errors: unavailable.
func (s *Store) SignArchive(ctx context.Context, object string, validity time.Duration) (string, error) {
	key, err := archiveKey(object)
	if err != nil {
		return "", err
	}
	address, err := s.bucket.SignedURL(ctx, key, &blob.SignedURLOptions{Method: http.MethodGet, Expiry: validity})
	switch {
	case gcerrors.Code(err) == gcerrors.Unimplemented:
		return "", nil
	case err != nil:
		return "", run.Errorf(codeOf(err), "sign a URL for archive %s: %w", object, err)
	}
	return address, nil
}

// DeleteArchive removes an archive, and the incomplete file of a writer that
// was killed. It is idempotent. Errors: unavailable.
func (s *Store) DeleteArchive(ctx context.Context, object string) error {
	key, err := archiveKey(object)
	if err != nil {
		return err
	}
	if err := s.remove(ctx, key); err != nil {
		return err
	}
	if s.dir == nil {
		return nil
	}
	// In object stores, a lifecycle rule of the bucket removes incomplete
	// uploads.
	path := s.dir.path(key)
	left, err := filepath.Glob(path + ".*.tmp")
	if err != nil {
		return fmt.Errorf("list the incomplete files of archive %s: %w", object, err)
	}
	for _, name := range left {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return run.Errorf(run.CodeUnavailable, "remove an incomplete file of archive %s: %w", object, err)
		}
	}
	return nil
}

// archiveKey names the object of an archive. It spreads objects over
// directories.
func archiveKey(object string) (string, error) {
	const spread = 2
	if len(object) <= spread || strings.ContainsFunc(object, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return "", run.Errorf(run.CodeInternal, "%q is not the name of an archive", object)
	}
	return "archives/" + object[:spread] + "/" + object, nil
}
