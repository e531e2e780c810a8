package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Archives stores which object of the blob store holds what a step saved, and
// which steps may read it. PutObject writes a row before the bytes are written.
// The archive exists from the transaction of CommitArchive on.
type Archives interface {
	ArchiveRetention
	// ArchiveContext returns what the gateway must know about a step for which an
	// executor has an open claim. Errors: not_found (no such claim, another
	// executor's claim, no such step), conflict (the claim is closed). All
	// calls that take an ArchiveClaim return these errors.
	ArchiveContext(ctx context.Context, c ArchiveClaim) (ArchiveContext, error)
	// ClaimSecrets returns the specification of the run of a claim, without
	// tasks and with secrets. The secrets are masked in texts of the task.
	ClaimSecrets(ctx context.Context, c ArchiveClaim) (*run.Spec, error)
	// SavedArchive returns the archive that the step saved before, or the cache
	// of that scope and name; nil if there is none.
	SavedArchive(ctx context.Context, c ArchiveClaim, scope, name string) (*Archive, error)
	// PutObject records an object before its bytes are written, or extends its
	// lease. An object that is not committed becomes garbage after the lease.
	// Errors: gone (the object was collected as garbage).
	PutObject(ctx context.Context, object string, lease time.Duration) error
	// CommitArchive makes an archive visible. If the step, or another step with
	// the same cache, saved one meanwhile, CommitArchive returns that one, and
	// the object becomes garbage; but a cache with Replace takes its place, and
	// the object of the earlier one can be read for ReplacedLease. Errors: gone
	// (the object was collected as garbage).
	CommitArchive(ctx context.Context, c ArchiveClaim, a Archive) (Archive, error)
	// Workspaces returns what all tasks saved that the step's task depends on,
	// directly or indirectly, ordered by level, name and step. Removed archives
	// have no object.
	Workspaces(ctx context.Context, c ArchiveClaim) ([]Archive, error)
	// FindCache returns the first cache found for one of the keys: in one of
	// the scopes the cache of exactly that name, else the newest cache whose
	// name begins with the key. It marks the cache as used. nil means that
	// there is none.
	FindCache(ctx context.Context, c ArchiveClaim, scopes, keys []string) (*Archive, error)
	// CheckObjectAccess returns nil if the step's executor may read an object. Errors:
	// gone (the object was removed).
	CheckObjectAccess(ctx context.Context, c ArchiveClaim, object string) error
	// Artifacts returns the artifacts of a run, by task and name. Removed
	// artifacts have no object. Errors: not_found.
	Artifacts(ctx context.Context, id run.ID) ([]Archive, error)
	// ServiceKey returns the secret of the service of that name. The first call
	// stores first as the secret.
	ServiceKey(ctx context.Context, name, first string) (string, error)
}

// ArchiveRetention removes expired archives.
type ArchiveRetention interface {
	// ExpireArchives removes up to n expired archives of a kind, those that
	// expired first. A repeated call continues where the last one stopped.
	ExpireArchives(ctx context.Context, kind run.ArchiveKind, keep run.ArchiveRetention, n int) (Expired, error)
	// TakeObjects leases up to n objects that are garbage. An object that is
	// not done after the lease is handed out again. CompleteObjects deletes the
	// rows of objects whose bytes are removed.
	TakeObjects(ctx context.Context, n int, lease time.Duration) ([]string, error)
	CompleteObjects(ctx context.Context, objects []string) error
	// ArchiveStats counts what is stored: each object once, even if several
	// runs share it.
	ArchiveStats(ctx context.Context) (map[run.ArchiveKind]run.ArchiveStat, error)
}

// ArchiveClaim names a step on behalf of an executor.
type ArchiveClaim struct {
	Key      run.Key
	Executor string
	Step     int
}

// ArchiveContext describes a step that saves or restores archives.
type ArchiveContext struct {
	Step      run.ArchiveStep
	Task      string
	Group     string
	Untrusted bool
}

// Archive is a stored archive.
type Archive struct {
	Kind   run.ArchiveKind
	Run    run.ID // empty for a cache; likewise Task and Step
	Task   string
	Step   int
	Scope  string // of a cache
	Name   string // of a cache or artifact
	Object string // "" if it was removed
	Size   int64
	Digest string
	// Tests sums up the test reports of an artifact; nil for none.
	Tests *run.TestSummary
	// Replace makes a cache take the place of one with its scope and name.
	Replace bool
	Created time.Time
	Expires time.Time // zero: never, or only with its run or cache policy
}

// ReplacedLease is how long the object of a replaced cache can be read: steps that found
// the cache before may still read it, and resume the transfer.
const ReplacedLease = time.Hour

// Expired counts what was removed.
type Expired struct {
	Archives int
	Bytes    int64
	More     bool // more archives may have expired
}
