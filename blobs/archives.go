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

// archivePart is how much of an archive is in memory for each part that is on
// its way to an object store, of which there are archiveParts.
const (
	archivePart  = 8 << 20
	archiveParts = 2
	// archiveBuffer is how much is read and written at once.
	archiveBuffer = 256 << 10
)

// NewObject returns the name of an archive that is to be stored: it is random,
// so that nobody can guess it, and never used again.
func (s *Store) NewObject() string { return strings.ToLower(rand.Text()) }

// PutArchive stores content to its end. If reading fails, or ctx ends, there is
// no object of that name. Errors: unavailable, and those of content as they are.
func (s *Store) PutArchive(ctx context.Context, object string, content io.Reader) error {
	key, err := archiveKey(object)
	if err != nil {
		return err
	}
	w, err := s.create(ctx, key, true, blob.WriterOptions{
		BufferSize: archivePart, MaxConcurrency: archiveParts, ContentType: "application/zstd",
	})
	if err != nil {
		return run.Errorf(codeOf(err), "writing archive %s: %w", object, err)
	}
	from := &failing{r: content}
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
		return run.Errorf(run.CodeCanceled, "writing archive %s: %w", object, context.Cause(ctx))
	}
	return run.Errorf(codeOf(err), "writing archive %s: %w", object, err)
}

// failing remembers how reading failed.
type failing struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (f *failing) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// GetArchive reads an archive from an offset on. Errors: not_found, invalid (the
// offset is behind its end), unavailable.
func (s *Store) GetArchive(ctx context.Context, object string, offset int64) (io.ReadCloser, error) {
	key, err := archiveKey(object)
	if err != nil {
		return nil, err
	}
	r, err := s.bucket.NewRangeReader(ctx, key, offset, -1, nil)
	if err != nil {
		// Some object stores refuse to read nothing from the end on.
		if a, missing := s.bucket.Attributes(ctx, key); missing == nil && offset > 0 && a.Size == offset {
			return io.NopCloser(strings.NewReader("")), nil
		}
		return nil, run.Errorf(codeOf(err), "reading archive %s: %w", object, err)
	}
	return r, nil
}

// SignArchive returns a URL by which whoever has it can read an archive for so
// long, "" where the store has none. Errors: unavailable.
func (s *Store) SignArchive(ctx context.Context, object string, life time.Duration) (string, error) {
	key, err := archiveKey(object)
	if err != nil {
		return "", err
	}
	address, err := s.bucket.SignedURL(ctx, key, &blob.SignedURLOptions{Method: http.MethodGet, Expiry: life})
	switch {
	case gcerrors.Code(err) == gcerrors.Unimplemented:
		return "", nil
	case err != nil:
		return "", run.Errorf(codeOf(err), "signing for archive %s: %w", object, err)
	}
	return address, nil
}

// DeleteArchive removes an archive, and what is left of one that was being
// written when its process died. One that is not there is no error. Errors:
// unavailable.
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
	// Object stores drop uploads that were not completed by a rule of the bucket.
	path := s.dir.path(key)
	left, err := filepath.Glob(path + ".*.tmp")
	if err != nil {
		return fmt.Errorf("looking for what is left of archive %s: %w", object, err)
	}
	for _, name := range left {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return run.Errorf(run.CodeUnavailable, "removing what is left of archive %s: %w", object, err)
		}
	}
	return nil
}

// archiveKey names the object of an archive, spread over directories.
func archiveKey(object string) (string, error) {
	const spread = 2
	if len(object) <= spread || strings.ContainsFunc(object, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return "", run.Errorf(run.CodeInternal, "%q is not the name of an archive", object)
	}
	return "archives/" + object[:spread] + "/" + object, nil
}
