package run

import (
	"context"
	"time"
)

// RetentionKind is a kind of thing that is kept for a time only.
type RetentionKind string

// The kinds, in the order in which they are removed.
const (
	RetentionLogs       RetentionKind = "logs" // of a run, all together
	RetentionWorkspaces RetentionKind = "workspaces"
	RetentionArtifacts  RetentionKind = "artifacts"
	RetentionCaches     RetentionKind = "caches"
	RetentionRuns       RetentionKind = "runs"
	RetentionEvents     RetentionKind = "events"
)

// RetentionKinds lists all kinds.
func RetentionKinds() []RetentionKind {
	return []RetentionKind{RetentionLogs, RetentionWorkspaces, RetentionArtifacts, RetentionCaches, RetentionRuns, RetentionEvents}
}

// Retention returns the kind of retention of archives.
func (k ArchiveKind) Retention() RetentionKind {
	switch k {
	case ArchiveWorkspace:
		return RetentionWorkspaces
	case ArchiveArtifact:
		return RetentionArtifacts
	case ArchiveCache:
		return RetentionCaches
	}
	return ""
}

// Retention says what is kept. The zero value keeps everything.
type Retention struct {
	// Interval is how long it waits from one look to the next.
	Interval Duration `json:"interval"`
	// PerSecond is how much is removed in a second: runs, the logs of runs,
	// archives, and hundreds of events; 0 is no bound.
	PerSecond int              `json:"per_second,omitempty"`
	Logs      LogRetention     `json:"logs,omitzero"`
	Runs      RunsRetention    `json:"runs,omitzero"`
	Events    EventRetention   `json:"events,omitzero"`
	Archives  ArchiveRetention `json:"archives,omitzero"`
}

// LogRetention says which logs expire: those of runs that ended longer ago.
type LogRetention struct {
	MaxAge Duration `json:"max_age,omitempty"` // 0 is no bound
	// PerSecond was the rate of logs alone, in versions that had none for the
	// rest. It holds where Retention.PerSecond is not set.
	PerSecond int `json:"per_second,omitempty"`
}

// RunsRetention says which runs that have ended are deleted: those that all
// bounds allow that are set.
type RunsRetention struct {
	MaxAge Duration `json:"max_age,omitempty"` // older ones; 0 is no bound
	Keep   int      `json:"keep,omitempty"`    // those beyond the newest of their group; 0 is no bound
}

// EventRetention says which events are deleted: those that any bound allows
// that is set.
type EventRetention struct {
	MaxAge Duration `json:"max_age,omitempty"`
	Keep   int64    `json:"keep,omitempty"`
}

// ArchiveRetention says which workspaces and caches are removed. Artifacts have
// times of their own.
type ArchiveRetention struct {
	// On has archives removed at all. It is not set by versions that removed
	// them elsewhere.
	On bool `json:"on,omitempty"`
	// Workspaces is how long workspaces are kept after the end of their run; 0
	// keeps them as long as the run.
	Workspaces Duration `json:"workspaces,omitempty"`
	// Caches go once nobody has used them for this long; 0 is no bound.
	CacheUnused Duration `json:"cache_unused,omitempty"`
	// Caches go, those first that were used longest ago, until all together take
	// no more bytes; 0 is no bound.
	CacheBytes int64 `json:"cache_bytes,omitempty"`
}

// Off reports whether everything is kept.
func (r Retention) Off() bool {
	return r.Runs == RunsRetention{} && r.Events == EventRetention{} && r.Logs.MaxAge == 0 && !r.Archives.On
}

// RetentionSum is how much of a kind was removed.
type RetentionSum struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes,omitempty"` // of runs and events they are not known
}

// RetentionStatus is how the removal stands.
type RetentionStatus struct {
	// Retention is what is kept, by the configuration of the control worker that
	// started last.
	Retention Retention `json:"retention"`
	// Running says that somebody looks now and then. If not, all is kept.
	Running bool `json:"-"`
	// Doing is what is being removed, "" between two looks; Next is when the
	// next one is then.
	Doing RetentionKind `json:"doing,omitempty"`
	Next  time.Time     `json:"next,omitzero"`
	// Removed counts from Since on.
	Since   time.Time                      `json:"since,omitzero"`
	Removed map[RetentionKind]RetentionSum `json:"removed,omitempty"`
}

// RetentionDue is what of a kind is kept no longer, and still there.
type RetentionDue struct {
	Kind RetentionKind
	RetentionSum
	// Oldest is the earliest Since of all; zero where there are none.
	Oldest time.Time
	// First has some of them, the oldest first.
	First []RetentionItem
}

// RetentionItem is a thing that is kept no longer.
type RetentionItem struct {
	Run   ID     // of everything but caches
	Task  string // of a workspace or artifact
	Name  string // of an artifact or cache
	Scope string // of a cache
	Event int64  // number of an event
	Bytes int64  // of runs and events they are not known
	// Since is what its age counts from: the creation of a run, the end of the
	// run of logs and workspaces, the last use of a cache, the time of an event.
	// Of an artifact it is until when it was to be kept.
	Since time.Time
}

// RetentionOffice tells what is kept, and what is not. Implementations are safe
// for concurrent use.
type RetentionOffice interface {
	// RetentionStatus tells how the removal stands. Errors: unavailable (also
	// where no control worker answers).
	RetentionStatus(ctx context.Context) (RetentionStatus, error)
	// RetentionPreview tells, by kind, what r would have removed at this moment,
	// with up to n of each. It removes nothing. Errors: unavailable.
	RetentionPreview(ctx context.Context, r Retention, n int) ([]RetentionDue, error)
}
