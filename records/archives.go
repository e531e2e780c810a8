package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Archives keeps what steps saved: which object of the blob store it is, and
// who may read it. The bytes are written first, under a row that PutObject
// makes, and count from the one transaction of CommitArchive on.
type Archives interface {
	ArchiveRetention
	// ArchivePlace tells about a step for which an executor has an open claim.
	// Errors: not_found (no such claim, not of this executor, no such step),
	// conflict (the claim is closed). They are those of all calls that take an
	// ArchiveClaim.
	ArchivePlace(ctx context.Context, c ArchiveClaim) (ArchivePlace, error)
	// ClaimSecrets returns the specification of the run of a claim, without tasks
	// and with secrets: what is to be hidden in texts of the task.
	ClaimSecrets(ctx context.Context, c ArchiveClaim) (*run.Spec, error)
	// SavedArchive returns what the step saved before, or the cache of that scope
	// and name; nil for none.
	SavedArchive(ctx context.Context, c ArchiveClaim, scope, name string) (*Archive, error)
	// PutObject notes an object before its bytes are written, or goes on with
	// one: unless it is committed, it is garbage after the lease. Errors: gone
	// (it was taken as garbage).
	PutObject(ctx context.Context, object string, lease time.Duration) error
	// CommitArchive makes an archive be seen. Where the step, or another step
	// with the same cache, has saved one meanwhile, that one is returned, and the
	// object is garbage. Errors: gone (the object was taken as garbage).
	CommitArchive(ctx context.Context, c ArchiveClaim, a Archive) (Archive, error)
	// Workspaces returns what all tasks saved that the step's task depends on,
	// over any number of others, by level, then name, then step. Those that were
	// removed have no object.
	Workspaces(ctx context.Context, c ArchiveClaim) ([]Archive, error)
	// FindCache returns the first cache that is found for one of the keys: in one
	// of the scopes of exactly that name, or else the newest in one of them whose
	// name begins with it. It counts as used then. nil: there is none.
	FindCache(ctx context.Context, c ArchiveClaim, scopes, keys []string) (*Archive, error)
	// MayRead returns nil where the step's executor may read an object. Errors:
	// gone (it was removed).
	MayRead(ctx context.Context, c ArchiveClaim, object string) error
	// Artifacts returns the artifacts of a run, by task and name; those that were
	// removed have no object. Errors: not_found.
	Artifacts(ctx context.Context, id run.ID) ([]Archive, error)
	// ServiceKey returns the secret of the service of that name; the first call
	// of all stores that one.
	ServiceKey(ctx context.Context, name, first string) (string, error)
}

// ArchiveRetention removes archives that are kept no longer.
type ArchiveRetention interface {
	// ExpireArchives removes up to n archives of a kind that are kept no longer,
	// those first that are due the longest. Tried again it goes on where it was.
	ExpireArchives(ctx context.Context, kind run.ArchiveKind, keep run.ArchiveRetention, n int) (Expired, error)
	// TakeObjects takes up to n objects that are garbage; what is not done after
	// the lease is handed out again. DoneObjects forgets those whose bytes are
	// removed.
	TakeObjects(ctx context.Context, n int, lease time.Duration) ([]string, error)
	DoneObjects(ctx context.Context, objects []string) error
	// ArchiveStats counts what is stored: each object once, however many runs
	// share it.
	ArchiveStats(ctx context.Context) (map[run.ArchiveKind]run.ArchiveStat, error)
}

// ArchiveClaim names a step on behalf of an executor.
type ArchiveClaim struct {
	Key      run.Key
	Executor string
	Step     int
}

// ArchivePlace is what there is to know about a step that moves archives.
type ArchivePlace struct {
	Step      run.ArchiveStep
	Task      string
	Group     string
	Untrusted bool
}

// Archive is a stored archive.
type Archive struct {
	Kind   run.ArchiveKind
	Run    run.ID // not of a cache; likewise Task and Step
	Task   string
	Step   int
	Scope  string // of a cache
	Name   string // of a cache or artifact
	Object string // "": it was removed
	Size   int64
	Digest string
	// Tests is what an artifact's reports of tests say; nil for none.
	Tests   *run.TestSummary
	Created time.Time
	Expires time.Time // zero: never, or not by itself
}

// Expired says what was removed.
type Expired struct {
	Archives int
	Bytes    int64
	More     bool // there may be more
}
