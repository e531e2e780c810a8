package archives

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// Bounds of the resources of this process for reading archives. A task writes
// its archive, so it can make one that takes as much as possible.
const (
	maxOpenFiles   = 32 // each takes up to 9 MiB of memory
	maxScans       = 4  // archives scanned concurrently for a file or a list
	maxReportScans = 2  // archives scanned concurrently for test reports
	scanWait       = 10 * time.Second

	// The bounds for an archive, if the configuration does not set them.
	maxScanEntries = 10_000_000
	maxScanBytes   = 1 << 38
	// maxEntryText bounds the total length of the names and targets of a list.
	maxEntryText = 4 << 20
)

var errBusy = errors.New("the gateway reads too many archives at the moment")

// readLimits are the semaphores of one process.
type readLimits struct{ files, scans, reports *semaphore.Weighted }

func newReadLimits() readLimits {
	return readLimits{
		files: semaphore.NewWeighted(maxOpenFiles), scans: semaphore.NewWeighted(maxScans), reports: semaphore.NewWeighted(maxReportScans),
	}
}

// begin acquires turns. The caller must call end at least once. Errors:
// unavailable if the wait timed out, and canceled.
func begin(ctx context.Context, turns *semaphore.Weighted) (end func(), err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, scanWait, errBusy)
	defer cancel()
	if err := turns.Acquire(waiting, 1); err != nil {
		if ctx.Err() != nil {
			return nil, run.Errorf(run.CodeCanceled, "wait to read an archive: %w", context.Cause(ctx))
		}
		return nil, run.Errorf(run.CodeUnavailable, "%w; try again", errBusy)
	}
	return sync.OnceFunc(func() { turns.Release(1) }), nil
}

// scanLimits returns the bounds for reading an archive.
func (s *Service) scanLimits(kind run.ArchiveKind) archive.Limits {
	l := s.options.limits(kind)
	return archive.Limits{Entries: cmp.Or(l.Entries, maxScanEntries), Bytes: cmp.Or(l.Bytes, maxScanBytes)}
}

// OpenArtifactFile implements run.Artifacts.
func (s *Service) OpenArtifactFile(ctx context.Context, ref run.ArtifactRef, path string) (run.ArtifactEntry, io.ReadCloser, error) {
	closed, err := begin(ctx, s.reads.files)
	if err != nil {
		return run.ArtifactEntry{}, nil, err
	}
	f, content, err := s.findArtifactFile(ctx, ref, path)
	if err != nil {
		closed()
		return run.ArtifactEntry{}, nil, err
	}
	return entryOf(f.Entry), readCloser{f, closers{f, content, closerFunc(closed)}}, nil
}

func (s *Service) findArtifactFile(ctx context.Context, ref run.ArtifactRef, path string) (*archive.File, io.Closer, error) {
	found, err := begin(ctx, s.reads.scans)
	if err != nil {
		return nil, nil, err
	}
	defer found()
	_, content, err := s.OpenArtifact(ctx, ref, 0)
	if err != nil {
		return nil, nil, err
	}
	f, err := archive.Open(ctx, content, path, s.scanLimits(run.ArchiveArtifact))
	if err != nil {
		return nil, nil, errors.Join(err, content.Close())
	}
	return f, content, nil
}

// ArtifactEntries implements run.Artifacts.
func (s *Service) ArtifactEntries(ctx context.Context, ref run.ArtifactRef, n int) (list []run.ArtifactEntry, more bool, err error) {
	listed, err := begin(ctx, s.reads.scans)
	if err != nil {
		return nil, false, err
	}
	defer listed()
	_, content, err := s.OpenArtifact(ctx, ref, 0)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = content.Close() }() // it was only read
	text := 0
	err = archive.List(ctx, content, s.scanLimits(run.ArchiveArtifact), func(entry archive.Entry, _ io.Reader) bool {
		text += len(entry.Name) + len(entry.Link)
		if len(list) == n || text > maxEntryText {
			more = true
			return false
		}
		list = append(list, entryOf(entry))
		return true
	})
	return list, more, err
}

// closerFunc is an io.Closer of a function that cannot fail.
type closerFunc func()

// Close implements io.Closer.
func (c closerFunc) Close() error {
	c()
	return nil
}
