package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drover-run/drover/archive"
	"github.com/drover-run/drover/run"
)

// Bounds of what reading in archives takes of this process. An archive is of a
// task, so it may be made to take as much as it can.
const (
	maxOpenFiles   = 32 // each takes up to 9 MiB of memory
	maxScans       = 4  // archives in which something is looked for
	maxReportScans = 2  // archives whose reports of tests are read
	scanWait       = 10 * time.Second

	// Of an archive, where the configuration does not bound it.
	maxScanEntries = 10_000_000
	maxScanBytes   = 1 << 38
	// maxEntryText is how long the names and targets are that a list has.
	maxEntryText = 4 << 20
)

var errBusy = errors.New("the gateway reads as many archives as it may")

// archiveReads are the bounds of one process.
type archiveReads struct{ files, scans, reports *semaphore.Weighted }

func newArchiveReads() archiveReads {
	return archiveReads{
		files: semaphore.NewWeighted(maxOpenFiles), scans: semaphore.NewWeighted(maxScans), reports: semaphore.NewWeighted(maxReportScans),
	}
}

// begin waits for its turn. end must be called, once or more often. Errors:
// unavailable, where the turn did not come, and canceled.
func begin(ctx context.Context, turns *semaphore.Weighted) (end func(), err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, scanWait, errBusy)
	defer cancel()
	if err := turns.Acquire(waiting, 1); err != nil {
		if ctx.Err() != nil {
			return nil, run.Errorf(run.CodeCanceled, "waiting to read an archive: %w", context.Cause(ctx))
		}
		return nil, run.Errorf(run.CodeUnavailable, "%w; try again", errBusy)
	}
	return sync.OnceFunc(func() { turns.Release(1) }), nil
}

// scanLimits bound what is read of an archive.
func (e *Engine) scanLimits(kind run.ArchiveKind) archive.Limits {
	l := e.archiving.limits(kind)
	return archive.Limits{Entries: cmp.Or(l.Entries, maxScanEntries), Bytes: cmp.Or(l.Bytes, maxScanBytes)}
}

// OpenArtifactFile implements run.Artifacts.
func (e *Engine) OpenArtifactFile(ctx context.Context, ref run.ArtifactRef, path string) (run.ArtifactEntry, io.ReadCloser, error) {
	closed, err := begin(ctx, e.reads.files)
	if err != nil {
		return run.ArtifactEntry{}, nil, err
	}
	f, content, err := e.findArtifactFile(ctx, ref, path)
	if err != nil {
		closed()
		return run.ArtifactEntry{}, nil, err
	}
	return entryOf(f.Entry), readCloser{f, closers{f, content, closerFunc(closed)}}, nil
}

func (e *Engine) findArtifactFile(ctx context.Context, ref run.ArtifactRef, path string) (*archive.File, io.Closer, error) {
	found, err := begin(ctx, e.reads.scans)
	if err != nil {
		return nil, nil, err
	}
	defer found()
	_, content, err := e.OpenArtifact(ctx, ref, 0)
	if err != nil {
		return nil, nil, err
	}
	f, err := archive.Open(ctx, content, path, e.scanLimits(run.ArchiveArtifact))
	if err != nil {
		return nil, nil, errors.Join(err, content.Close())
	}
	return f, content, nil
}

// ArtifactEntries implements run.Artifacts.
func (e *Engine) ArtifactEntries(ctx context.Context, ref run.ArtifactRef, n int) (list []run.ArtifactEntry, more bool, err error) {
	listed, err := begin(ctx, e.reads.scans)
	if err != nil {
		return nil, false, err
	}
	defer listed()
	_, content, err := e.OpenArtifact(ctx, ref, 0)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = content.Close() }() // it was only read
	text := 0
	err = archive.List(ctx, content, e.scanLimits(run.ArchiveArtifact), func(entry archive.Entry, _ io.Reader) bool {
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

// closerFunc is a function that cannot fail, as a closer.
type closerFunc func()

// Close implements io.Closer.
func (c closerFunc) Close() error {
	c()
	return nil
}
