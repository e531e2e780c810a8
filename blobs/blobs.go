// Package blobs stores the bytes of Drover: the logs of tasks and their
// archives, in a bucket that gocloud.dev/blob supports. The records list the
// stored objects; this package never lists a bucket.
package blobs

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/smithy-go"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/fileblob"  // file://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/memblob"   // mem://
	_ "gocloud.dev/blob/s3blob"    // s3://
	"gocloud.dev/gcerrors"

	"github.com/drover-run/drover/run"
)

// Store is a bucket. It is safe for concurrent use, also by several processes.
type Store struct {
	bucket  *blob.Bucket
	name    string     // the URL without its parameters
	dir     *directory // of a file:// bucket on this host, else nil
	packers packers
	written atomic.Pointer[time.Time] // when Check last wrote an object, nil for never
}

// Open opens the bucket of a URL: file:///dir (created if it does not exist),
// mem://, s3://, gs:// or azblob://. Credentials come from the cloud's own
// environment variables and files. Open does not contact the bucket; Check
// does. Errors: invalid (a URL that names no bucket).
func Open(ctx context.Context, address string) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "read the blob store's URL: %w", err)
	}
	var dir *directory
	if u.Scheme == "file" && u.Path != "" {
		if dir, err = openDirectory(filepath.Clean(filepath.FromSlash(u.Path))); err != nil {
			return nil, run.Errorf(run.CodeInvalid, "open the blob store: %w", err)
		}
		q := u.Query()
		q.Set("metadata", "skip") // attributes in separate files would be read for each object
		u.RawQuery = q.Encode()
	}
	bucket, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "open the blob store: %w", err)
	}
	return &Store{bucket: bucket, name: u.Scheme + "://" + u.Host + u.Path, dir: dir}, nil
}

// refusesCredentials reports whether a store does not know the credentials, or
// denies them access. gocloud.dev does not map all error codes of S3.
func refusesCredentials(err error) bool {
	switch gcerrors.Code(err) { //nolint:exhaustive // others are checked below
	case gcerrors.PermissionDenied:
		return true
	case gcerrors.OK:
		return false
	}
	named, ok := errors.AsType[smithy.APIError](err)
	return ok && slices.Contains([]string{"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}, named.ErrorCode())
}

// Close releases the bucket.
func (s *Store) Close() error { return s.bucket.Close() }

func (s *Store) get(ctx context.Context, key string) ([]byte, error) {
	data, err := s.bucket.ReadAll(ctx, key)
	if err != nil {
		return nil, run.Errorf(codeOf(err), "read blob %s: %w", key, err)
	}
	return data, nil
}

// remove deletes an object, if it exists.
func (s *Store) remove(ctx context.Context, key string) error {
	if err := s.bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return run.Errorf(codeOf(err), "remove blob %s: %w", key, err)
	}
	if s.dir != nil {
		if err := s.dir.syncRemoval(key); err != nil {
			return run.Errorf(run.CodeUnavailable, "remove blob %s: %w", key, err)
		}
	}
	return nil
}

func codeOf(err error) run.Code {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return run.CodeNotFound
	case gcerrors.Canceled:
		return run.CodeCanceled
	default:
		return run.CodeUnavailable
	}
}

// logKey names the object of a batch. It sorts by task, then attempt, then
// dispatch, then frame.
func logKey(key run.Key, first int64) string {
	return fmt.Sprintf("logs/%s/%05d/%03d.%03d/%012d", key.Run, key.Task, key.Attempt, key.Dispatch, first)
}
