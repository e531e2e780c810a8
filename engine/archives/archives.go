// Package archives saves and reads the archives of runs: workspaces, caches and
// artifacts, with the test reports in them. It implements run.ArchiveAPI for
// executors, run.Artifacts for clients, and run.ArchiveLocator for both, over the
// records store and the blob store.
package archives

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"log/slog"
	"sync/atomic"
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

// Store stores the bytes of archives, under names that it generates.
type Store interface {
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
}

// Options limit archives. Zero means no limit.
type Options struct {
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

// Deps are the dependencies of a Service. Store, Logger and Metrics are required.
type Deps struct {
	Store   records.Archives
	Objects Store // nil: there are no archives
	Options Options
	Logger  *slog.Logger
	Metrics *Metrics
	// Resolve adds the secrets of providers to the definition of a task. A
	// secret that is permanently unavailable is the definition's fault.
	Resolve func(ctx context.Context, d run.Definition) (run.Definition, error)
}

// Service implements run.ArchiveAPI, run.Artifacts and run.ArchiveLocator. It is
// safe for concurrent use. Any number of processes may run one on the same
// stores.
type Service struct {
	store   records.Archives
	objects Store
	options Options
	logger  *slog.Logger
	metrics *Metrics
	resolve func(ctx context.Context, d run.Definition) (run.Definition, error)

	refs  atomic.Pointer[[]byte] // the key that signs references, cached
	stats cachedStats
	reads readLimits
}

var (
	_ run.ArchiveAPI     = (*Service)(nil)
	_ run.Artifacts      = (*Service)(nil)
	_ run.ArchiveLocator = (*Service)(nil)
)

// New returns a Service. It does no I/O.
func New(deps Deps) *Service {
	return &Service{
		store: deps.Store, objects: deps.Objects, options: deps.Options, logger: deps.Logger, metrics: deps.Metrics,
		resolve: deps.Resolve, reads: newReadLimits(),
	}
}

func (o Options) limits(kind run.ArchiveKind) run.ArchiveLimits {
	l := o.Limits
	if kind == run.ArchiveCache && o.CacheSize > 0 && (l.Size == 0 || o.CacheSize < l.Size) {
		l.Size = o.CacheSize
	}
	return l
}

// FindArchives implements run.ArchiveAPI.
func (s *Service) FindArchives(ctx context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
	if err := s.hasArchives(); err != nil {
		return nil, err
	}
	c := records.ArchiveClaim{Key: q.Key, Executor: q.Executor, Step: q.Step}
	place, err := s.store.ArchiveContext(ctx, c)
	if err != nil {
		return nil, err
	}
	var found []records.Archive
	switch place.Step.Restores() {
	case run.ArchiveWorkspace:
		found, err = s.store.Workspaces(ctx, c)
	case run.ArchiveCache:
		found, err = s.findCache(ctx, c, place, q.Keys)
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
			return nil, run.Errorf(run.CodeGone, "the workspace of task %s was removed: workspaces are kept for %s after the end of their run", a.Task, s.options.Workspaces)
		}
		ref, err := s.signRef(ctx, reference{Action: actionRead, Claim: c, Object: a.Object, Size: a.Size, Kind: a.Kind})
		if err != nil {
			return nil, err
		}
		refs[i] = run.ArchiveRef{ArchiveInfo: infoOf(a), Ref: ref, Limits: s.options.limits(a.Kind)}
	}
	return refs, nil
}

func (s *Service) findCache(ctx context.Context, c records.ArchiveClaim, place records.ArchiveContext, keys []string) ([]records.Archive, error) {
	if len(keys) != len(place.Step.RestoreCache.Keys) {
		return nil, run.Errorf(run.CodeInvalid, "the step has %d keys, and %d were given", len(place.Step.RestoreCache.Keys), len(keys))
	}
	for i, key := range keys {
		if err := run.MatchCacheKey(place.Step.RestoreCache.Keys[i], key); err != nil {
			return nil, err
		}
	}
	found, err := s.store.FindCache(ctx, c, run.CacheScopes(place.Group, place.Step.RestoreCache.Scope, place.Untrusted), keys)
	s.metrics.cacheLookup(found != nil, err)
	if err != nil || found == nil {
		return nil, err
	}
	return []records.Archive{*found}, nil
}

// OpenArchive implements run.ArchiveAPI.
func (s *Service) OpenArchive(ctx context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
	ref, err := s.readable(ctx, r)
	if err != nil {
		return nil, err
	}
	content, err := s.objects.GetArchive(ctx, ref.Object, r.Offset)
	if err != nil {
		return nil, objectError(err)
	}
	out := s.metrics.countingReader(content, ref.Kind, ref.Size-r.Offset)
	if r.Offset == 0 && r.Ref.Digest != "" {
		return readCloser{&checkingReader{r: out, sum: sha256.New(), want: r.Ref.Digest}, out}, nil
	}
	return out, nil
}

// LocateArchive implements run.ArchiveLocator.
func (s *Service) LocateArchive(ctx context.Context, r run.ArchiveRead) (string, error) {
	ref, err := s.readable(ctx, r)
	if err != nil {
		return "", err
	}
	return s.locate(ctx, ref.Kind, ref.Object, ref.Size), nil
}

// readable returns the object that a reference allows its executor to read.
func (s *Service) readable(ctx context.Context, r run.ArchiveRead) (reference, error) {
	if err := s.hasArchives(); err != nil {
		return reference{}, err
	}
	ref, err := s.openRef(ctx, r.Ref.Ref, actionRead, r.Executor)
	if err != nil {
		return reference{}, err
	}
	if r.Offset < 0 || r.Offset > ref.Size {
		return reference{}, run.Errorf(run.CodeInvalid, "the archive has %d bytes; it cannot be read from %d on", ref.Size, r.Offset)
	}
	return ref, s.store.CheckObjectAccess(ctx, ref.Claim, ref.Object)
}

// locate returns a URL by which an archive can be read directly, or "".
func (s *Service) locate(ctx context.Context, kind run.ArchiveKind, object string, size int64) string {
	if s.options.DirectFrom <= 0 || size < s.options.DirectFrom {
		return ""
	}
	address, err := s.objects.SignArchive(ctx, object, urlLifetime)
	if err != nil {
		s.logger.WarnContext(ctx, "failed to sign an archive URL, using the gateway instead", "error", err)
		return ""
	}
	if address != "" {
		s.metrics.archiveLocated(kind)
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
func (s *Service) BeginArchive(ctx context.Context, save run.ArchiveSave) (run.ArchiveUpload, error) {
	if err := s.hasArchives(); err != nil {
		return run.ArchiveUpload{}, err
	}
	c := records.ArchiveClaim{Key: save.Key, Executor: save.Executor, Step: save.Step}
	place, err := s.store.ArchiveContext(ctx, c)
	if err != nil {
		return run.ArchiveUpload{}, err
	}
	kind := place.Step.Saves()
	ref := reference{Action: actionSave, Claim: c, Kind: kind}
	switch kind {
	case run.ArchiveWorkspace:
	case run.ArchiveArtifact:
		ref.Name, ref.JUnit = place.Step.SaveArtifacts.Name, place.Step.SaveArtifacts.JUnit
		ref.Keep = place.Step.SaveArtifacts.Retention.Std()
		if ref.Keep == 0 {
			ref.Keep = s.options.Artifacts
		}
	case run.ArchiveCache:
		if err := run.MatchCacheKey(place.Step.SaveCache.Key, save.CacheKey); err != nil {
			return run.ArchiveUpload{}, err
		}
		ref.Name = save.CacheKey
		ref.Scope = run.CacheScopes(place.Group, place.Step.SaveCache.Scope, place.Untrusted)[0]
		ref.Replace = place.Step.SaveCache.Mode == run.CacheReplace
	default:
		return run.ArchiveUpload{}, run.Errorf(run.CodeInvalid, "step %d of task %s does not save an archive", save.Step, place.Task)
	}
	var saved *records.Archive
	if !ref.Replace { // a step that repeats its call replaces its own cache by the same files
		if saved, err = s.store.SavedArchive(ctx, c, ref.Scope, ref.Name); err != nil {
			return run.ArchiveUpload{}, err
		}
	}
	up := run.ArchiveUpload{Executor: save.Executor, Limits: s.options.limits(kind)}
	if saved != nil {
		info := infoOf(*saved)
		up.Saved = &info
		return up, nil
	}
	up.Ref, err = s.signRef(ctx, ref)
	return up, err
}

// SaveArchive implements run.ArchiveAPI. It stores the bytes under an
// unguessable name; the archive exists once a transaction commits that name.
func (s *Service) SaveArchive(ctx context.Context, u run.ArchiveUpload, content io.Reader) (run.ArchiveInfo, error) {
	if err := s.hasArchives(); err != nil {
		return run.ArchiveInfo{}, err
	}
	ref, err := s.openRef(ctx, u.Ref, actionSave, u.Executor)
	if err != nil {
		return run.ArchiveInfo{}, err
	}
	if _, err := s.store.ArchiveContext(ctx, ref.Claim); err != nil {
		return run.ArchiveInfo{}, err // before the bytes arrive
	}
	object, begun := s.objects.NewObject(), time.Now()
	if err := s.store.PutObject(ctx, object, objectLease); err != nil {
		return run.ArchiveInfo{}, err
	}
	saved, err := s.saveObject(ctx, ref, object, content)
	s.metrics.archiveSaved(ref.Kind, saved.Size, time.Since(begun), err)
	if err != nil {
		// The object is garbage immediately, and not only when its lease ends.
		_ = s.store.PutObject(context.WithoutCancel(ctx), object, 0) // the first error is the one to return
		return run.ArchiveInfo{}, err
	}
	return infoOf(saved), nil
}

func (s *Service) saveObject(ctx context.Context, ref reference, object string, content io.Reader) (records.Archive, error) {
	summed, ok := content.(run.DigestReader)
	if !ok {
		summed = &digestReader{r: content, sum: sha256.New()}
	}
	in := &receivingReader{
		ctx: ctx, r: summed, maxSize: s.options.limits(ref.Kind).Size, renewed: time.Now(),
		renew: func() error {
			// The claim may have been closed since, and the executor removed.
			if _, err := s.store.ArchiveContext(ctx, ref.Claim); err != nil {
				return err
			}
			return s.store.PutObject(ctx, object, objectLease)
		},
	}
	if err := s.objects.PutArchive(ctx, object, in); err != nil {
		return records.Archive{}, err
	}
	if in.size == 0 {
		return records.Archive{}, run.Errorf(run.CodeInvalid, "the archive is empty")
	}
	a := records.Archive{
		Kind: ref.Kind, Scope: ref.Scope, Name: ref.Name, Object: object, Size: in.size, Digest: summed.Digest(),
		Replace: ref.Replace,
	}
	if ref.Keep > 0 {
		a.Expires = time.Now().Add(ref.Keep)
	}
	if ref.JUnit {
		summary, err := s.testReports(ctx, ref.Claim, object)
		if err != nil {
			return records.Archive{}, err
		}
		a.Tests = &summary
	}
	return s.store.CommitArchive(ctx, ref.Claim, a)
}

// hasArchives returns an error if this process stores no archives.
func (s *Service) hasArchives() error {
	if s.objects == nil {
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
