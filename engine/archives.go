package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const (
	// objectLease is how long an object is kept after the last renewal while
	// its bytes are being written. The object of a killed process is removed
	// after it.
	objectLease = 10 * time.Minute
	// refLifetime is how long a reference may be used to begin a transfer.
	refLifetime = time.Hour
	// urlLifetime is how long a signed URL may be used to begin a transfer. A
	// client uses it immediately, but clocks differ.
	urlLifetime = 5 * time.Minute
)

// ArchiveStore stores the bytes of archives, under names that it generates.
type ArchiveStore interface {
	// NewObject returns an unguessable name that was never used.
	NewObject() string
	// PutArchive stores content to its end, or no object of that name. Errors:
	// unavailable, and those of content unchanged.
	PutArchive(ctx context.Context, object string, content io.Reader) error
	// GetArchive reads an archive from an offset. Errors: not_found,
	// unavailable.
	GetArchive(ctx context.Context, object string, offset int64) (io.ReadCloser, error)
	// SignArchive returns a URL whose bearer can read an archive for the time
	// life, or "" if the store has none. Errors: unavailable.
	SignArchive(ctx context.Context, object string, life time.Duration) (string, error)
	// DeleteArchive removes an archive, also one that was not completed. A
	// missing archive is no error. Errors: unavailable.
	DeleteArchive(ctx context.Context, object string) error
}

// ArchiveOptions limit archives. Zero means no limit.
type ArchiveOptions struct {
	Limits run.ArchiveLimits // of a workspace or artifact
	// CacheSize is the largest size of one cache; Limits apply too.
	CacheSize int64
	// Artifacts is how long artifacts without a retention of their own are
	// kept.
	Artifacts time.Duration
	// Workspaces is how long workspaces are kept after the end of their run.
	// The error for a removed workspace mentions it.
	Workspaces time.Duration
	// DirectFrom is the size from which archives are read directly from the
	// store, if the store signs URLs; 0: none are.
	DirectFrom int64
}

func (o ArchiveOptions) limits(kind run.ArchiveKind) run.ArchiveLimits {
	l := o.Limits
	if kind == run.ArchiveCache && o.CacheSize > 0 && (l.Size == 0 || o.CacheSize < l.Size) {
		l.Size = o.CacheSize
	}
	return l
}

// FindArchives implements run.ArchiveAPI.
func (e *Engine) FindArchives(ctx context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
	if err := e.hasArchives(); err != nil {
		return nil, err
	}
	c := records.ArchiveClaim{Key: q.Key, Executor: q.Executor, Step: q.Step}
	place, err := e.store.ArchiveContext(ctx, c)
	if err != nil {
		return nil, err
	}
	var found []records.Archive
	switch place.Step.Restores() {
	case run.ArchiveWorkspace:
		found, err = e.store.Workspaces(ctx, c)
	case run.ArchiveCache:
		found, err = e.findCache(ctx, c, place, q.Keys)
	case run.ArchiveArtifact:
	default:
		err = run.Errorf(run.CodeInvalid, "step %d of task %s does not restore an archive", q.Step, place.Task)
	}
	if err != nil {
		return nil, err
	}
	refs := make([]run.ArchiveRef, len(found))
	for i, a := range found {
		if a.Object == "" {
			return nil, run.Errorf(run.CodeGone, "the workspace of task %s was removed: workspaces are kept for %s after the end of their run", a.Task, e.archiving.Workspaces)
		}
		ref, err := e.signRef(ctx, archiveRef{Action: actionRead, Claim: c, Object: a.Object, Size: a.Size, Kind: a.Kind})
		if err != nil {
			return nil, err
		}
		refs[i] = run.ArchiveRef{ArchiveInfo: infoOf(a), Ref: ref, Limits: e.archiving.limits(a.Kind)}
	}
	return refs, nil
}

func (e *Engine) findCache(ctx context.Context, c records.ArchiveClaim, place records.ArchiveContext, keys []string) ([]records.Archive, error) {
	if len(keys) != len(place.Step.RestoreCache.Keys) {
		return nil, run.Errorf(run.CodeInvalid, "the step has %d keys, and %d were given", len(place.Step.RestoreCache.Keys), len(keys))
	}
	for i, key := range keys {
		if err := run.MatchCacheKey(place.Step.RestoreCache.Keys[i], key); err != nil {
			return nil, err
		}
	}
	found, err := e.store.FindCache(ctx, c, run.CacheScopes(place.Group, place.Step.RestoreCache.Scope, place.Untrusted), keys)
	e.metrics.cacheLookup(found != nil, err)
	if err != nil || found == nil {
		return nil, err
	}
	return []records.Archive{*found}, nil
}

// OpenArchive implements run.ArchiveAPI.
func (e *Engine) OpenArchive(ctx context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
	ref, err := e.readable(ctx, r)
	if err != nil {
		return nil, err
	}
	content, err := e.archives.GetArchive(ctx, ref.Object, r.Offset)
	if err != nil {
		return nil, objectError(err)
	}
	out := e.metrics.countingReader(content, ref.Kind, ref.Size-r.Offset)
	if r.Offset == 0 && r.Ref.Digest != "" {
		return readCloser{&checkingReader{r: out, sum: sha256.New(), want: r.Ref.Digest}, out}, nil
	}
	return out, nil
}

// LocateArchive implements run.ArchiveLocator.
func (e *Engine) LocateArchive(ctx context.Context, r run.ArchiveRead) (string, error) {
	ref, err := e.readable(ctx, r)
	if err != nil {
		return "", err
	}
	return e.locate(ctx, ref.Kind, ref.Object, ref.Size), nil
}

// readable returns the object that a reference allows its executor to read.
func (e *Engine) readable(ctx context.Context, r run.ArchiveRead) (archiveRef, error) {
	if err := e.hasArchives(); err != nil {
		return archiveRef{}, err
	}
	ref, err := e.openRef(ctx, r.Ref.Ref, actionRead, r.Executor)
	if err != nil {
		return archiveRef{}, err
	}
	if r.Offset < 0 || r.Offset > ref.Size {
		return archiveRef{}, run.Errorf(run.CodeInvalid, "the archive has %d bytes; it cannot be read from %d on", ref.Size, r.Offset)
	}
	return ref, e.store.CheckObjectAccess(ctx, ref.Claim, ref.Object)
}

// locate returns a URL by which an archive can be read directly, or "".
func (e *Engine) locate(ctx context.Context, kind run.ArchiveKind, object string, size int64) string {
	if e.archiving.DirectFrom <= 0 || size < e.archiving.DirectFrom {
		return ""
	}
	address, err := e.archives.SignArchive(ctx, object, urlLifetime)
	if err != nil {
		e.logger.WarnContext(ctx, "failed to sign an archive URL, using the gateway instead", "error", err)
		return ""
	}
	if address != "" {
		e.metrics.archiveLocated(kind)
	}
	return address
}

// objectError converts the error for an object that the records have and the
// store does not: it has just been removed.
func objectError(err error) error {
	if run.CodeOf(err) == run.CodeNotFound {
		return run.Errorf(run.CodeGone, "the archive was removed")
	}
	return err
}

// BeginArchive implements run.ArchiveAPI.
func (e *Engine) BeginArchive(ctx context.Context, s run.ArchiveSave) (run.ArchiveUpload, error) {
	if err := e.hasArchives(); err != nil {
		return run.ArchiveUpload{}, err
	}
	c := records.ArchiveClaim{Key: s.Key, Executor: s.Executor, Step: s.Step}
	place, err := e.store.ArchiveContext(ctx, c)
	if err != nil {
		return run.ArchiveUpload{}, err
	}
	kind := place.Step.Saves()
	ref := archiveRef{Action: actionSave, Claim: c, Kind: kind}
	switch kind {
	case run.ArchiveWorkspace:
	case run.ArchiveArtifact:
		ref.Name, ref.JUnit = place.Step.SaveArtifacts.Name, place.Step.SaveArtifacts.JUnit
		ref.Keep = place.Step.SaveArtifacts.Retention.Std()
		if ref.Keep == 0 {
			ref.Keep = e.archiving.Artifacts
		}
	case run.ArchiveCache:
		if err := run.MatchCacheKey(place.Step.SaveCache.Key, s.CacheKey); err != nil {
			return run.ArchiveUpload{}, err
		}
		ref.Name = s.CacheKey
		ref.Scope = run.CacheScopes(place.Group, place.Step.SaveCache.Scope, place.Untrusted)[0]
	default:
		return run.ArchiveUpload{}, run.Errorf(run.CodeInvalid, "step %d of task %s does not save an archive", s.Step, place.Task)
	}
	saved, err := e.store.SavedArchive(ctx, c, ref.Scope, ref.Name)
	if err != nil {
		return run.ArchiveUpload{}, err
	}
	up := run.ArchiveUpload{Executor: s.Executor, Limits: e.archiving.limits(kind)}
	if saved != nil {
		info := infoOf(*saved)
		up.Saved = &info
		return up, nil
	}
	up.Ref, err = e.signRef(ctx, ref)
	return up, err
}

// SaveArchive implements run.ArchiveAPI. It stores the bytes under an
// unguessable name; the archive exists once a transaction commits that name.
func (e *Engine) SaveArchive(ctx context.Context, u run.ArchiveUpload, content io.Reader) (run.ArchiveInfo, error) {
	if err := e.hasArchives(); err != nil {
		return run.ArchiveInfo{}, err
	}
	ref, err := e.openRef(ctx, u.Ref, actionSave, u.Executor)
	if err != nil {
		return run.ArchiveInfo{}, err
	}
	if _, err := e.store.ArchiveContext(ctx, ref.Claim); err != nil {
		return run.ArchiveInfo{}, err // before the bytes arrive
	}
	object, begun := e.archives.NewObject(), time.Now()
	if err := e.store.PutObject(ctx, object, objectLease); err != nil {
		return run.ArchiveInfo{}, err
	}
	saved, err := e.saveObject(ctx, ref, object, content)
	e.metrics.archiveSaved(ref.Kind, saved.Size, time.Since(begun), err)
	if err != nil {
		// The object is garbage immediately, and not only when its lease ends.
		_ = e.store.PutObject(context.WithoutCancel(ctx), object, 0) // the first error is the one to return
		return run.ArchiveInfo{}, err
	}
	return infoOf(saved), nil
}

func (e *Engine) saveObject(ctx context.Context, ref archiveRef, object string, content io.Reader) (records.Archive, error) {
	summed, ok := content.(run.DigestReader)
	if !ok {
		summed = &digestReader{r: content, sum: sha256.New()}
	}
	in := &receivingReader{
		ctx: ctx, r: summed, maxSize: e.archiving.limits(ref.Kind).Size, renewed: time.Now(),
		renew: func() error {
			// The claim may have been closed since, and the executor removed.
			if _, err := e.store.ArchiveContext(ctx, ref.Claim); err != nil {
				return err
			}
			return e.store.PutObject(ctx, object, objectLease)
		},
	}
	if err := e.archives.PutArchive(ctx, object, in); err != nil {
		return records.Archive{}, err
	}
	if in.size == 0 {
		return records.Archive{}, run.Errorf(run.CodeInvalid, "the archive is empty")
	}
	a := records.Archive{
		Kind: ref.Kind, Scope: ref.Scope, Name: ref.Name, Object: object, Size: in.size, Digest: summed.Digest(),
	}
	if ref.Keep > 0 {
		a.Expires = time.Now().Add(ref.Keep)
	}
	if ref.JUnit {
		summary, err := e.testReports(ctx, ref.Claim, object)
		if err != nil {
			return records.Archive{}, err
		}
		a.Tests = &summary
	}
	return e.store.CommitArchive(ctx, ref.Claim, a)
}

// hasArchives returns an error if this process stores no archives.
func (e *Engine) hasArchives() error {
	if e.archives == nil {
		return run.Errorf(run.CodeNotSupported, "this server stores no archives")
	}
	return nil
}

func infoOf(a records.Archive) run.ArchiveInfo {
	info := run.ArchiveInfo{Kind: a.Kind, Name: a.Name, Size: a.Size, Digest: a.Digest, Created: a.Created}
	if a.Kind == run.ArchiveWorkspace {
		info.Name = a.Task
	}
	return info
}

const digestPrefix = "sha256:"

func digestOf(sum hash.Hash) string { return digestPrefix + hex.EncodeToString(sum.Sum(nil)) }

// digestReader adds a digest to content that has none (see run.DigestReader).
type digestReader struct {
	r   io.Reader
	sum hash.Hash
}

// Read implements io.Reader.
func (s *digestReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.sum.Write(b[:n])
	return n, err
}

// Digest implements run.DigestReader.
func (s *digestReader) Digest() string { return digestOf(s.sum) }

// receivingReader is an archive that is being received. It counts the bytes and renews
// the lease of the object.
type receivingReader struct {
	ctx     context.Context //nolint:containedctx // of one call
	r       io.Reader
	size    int64
	maxSize int64 // 0: no limit
	renew   func() error
	renewed time.Time
}

// Read implements io.Reader.
func (i *receivingReader) Read(b []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, run.Errorf(run.CodeCanceled, "receive archive: %w", context.Cause(i.ctx))
	}
	if now := time.Now(); now.Sub(i.renewed) > objectLease/3 {
		if err := i.renew(); err != nil {
			return 0, err
		}
		i.renewed = now
	}
	n, err := i.r.Read(b)
	i.size += int64(n)
	if i.maxSize > 0 && i.size > i.maxSize {
		return 0, run.Errorf(run.CodeTooLarge, "the archive has more than %d bytes", i.maxSize)
	}
	return n, err
}

// checkingReader fails at the end of the content if its digest is not the
// expected one.
type checkingReader struct {
	r    io.Reader
	sum  hash.Hash
	want string
}

// Read implements io.Reader.
func (c *checkingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.sum.Write(b[:n])
	if errors.Is(err, io.EOF) && digestOf(c.sum) != c.want {
		err = run.Errorf(run.CodeInvalid, "the stored archive is corrupt: its digest is %s, not %s", digestOf(c.sum), c.want)
	}
	return n, err
}

type readCloser struct {
	io.Reader
	io.Closer
}
