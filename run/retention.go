package run

import (
	"context"
	"time"
)

// RetentionKind is a kind of data that is kept for a limited time.
type RetentionKind string

// The kinds, in the order in which they are removed.
const (
	RetentionLogs       RetentionKind = "logs" // all logs of a run together
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

// Retention returns the kind of retention that applies to archives of the kind.
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

// Retention configures what is kept. The zero value keeps everything.
type Retention struct {
	// Interval is the time between two checks.
	Interval Duration `json:"interval"`
	// PerSecond limits how many items are removed in a second: runs, the logs
	// of runs, archives, and hundreds of events; 0 is no bound.
	PerSecond int              `json:"per_second,omitempty"`
	Logs      LogRetention     `json:"logs,omitzero"`
	Runs      RunsRetention    `json:"runs,omitzero"`
	Events    EventRetention   `json:"events,omitzero"`
	Archives  ArchiveRetention `json:"archives,omitzero"`
}

// LogRetention says which logs expire: those of runs that ended more than
// MaxAge ago.
type LogRetention struct {
	MaxAge Duration `json:"max_age,omitempty"` // 0 is no bound
}

// RunsRetention says which ended runs are deleted: those that exceed every
// bound that is set.
type RunsRetention struct {
	MaxAge Duration `json:"max_age,omitempty"` // older ones; 0 is no bound
	Keep   int      `json:"keep,omitempty"`    // how many of the newest runs of a group are kept; 0 is no bound
}

// EventRetention says which events are deleted: those that exceed any bound
// that is set.
type EventRetention struct {
	MaxAge Duration `json:"max_age,omitempty"`
	Keep   int64    `json:"keep,omitempty"`
}

// ArchiveRetention says which workspaces and caches are removed. Each artifact
// has its own retention time.
type ArchiveRetention struct {
	// On enables the removal of archives.
	On bool `json:"on,omitempty"`
	// Workspaces is how long workspaces are kept after the end of their run; 0
	// keeps them as long as the run.
	Workspaces Duration `json:"workspaces,omitempty"`
	// CacheUnused is how long a cache may be unused before it is removed; 0 is
	// no bound.
	CacheUnused Duration `json:"cache_unused,omitempty"`
	// CacheBytes is the most bytes that all caches together take; the least
	// recently used caches are removed first. 0 is no bound.
	CacheBytes int64 `json:"cache_bytes,omitempty"`
}

// Off reports whether everything is kept.
func (r Retention) Off() bool {
	return r.Runs == RunsRetention{} && r.Events == EventRetention{} && r.Logs.MaxAge == 0 && !r.Archives.On
}

// RetentionSum counts what was removed of a kind.
type RetentionSum struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes,omitempty"` // not known for runs and events
}

// RetentionStatus is the state of the retention workflow.
type RetentionStatus struct {
	// Retention is the configuration of the control worker that started last.
	Retention Retention `json:"retention"`
	// Running says that the retention workflow runs. If it does not, everything
	// is kept.
	Running bool `json:"-"`
	// Removing is the kind that is being removed, "" between two checks; Next is
	// then the time of the next check.
	Removing RetentionKind `json:"removing,omitempty"`
	Next     time.Time     `json:"next,omitzero"`
	// Removed counts what was removed since Since.
	Since   time.Time                      `json:"since,omitzero"`
	Removed map[RetentionKind]RetentionSum `json:"removed,omitempty"`
}

// RetentionDue is the data of a kind that has expired and is still stored.
type RetentionDue struct {
	Kind RetentionKind
	RetentionSum
	// Oldest is the earliest Since of all items; zero if there are none.
	Oldest time.Time
	// First has some of the items, oldest first.
	First []RetentionItem
}

// RetentionItem is an item that has expired.
type RetentionItem struct {
	Run   ID     // not set for caches
	Task  string // of a workspace or artifact
	Name  string // of an artifact or cache
	Scope string // of a cache
	Event int64  // number of an event
	Bytes int64  // not known for runs and events
	// Since is the time from which its age counts: the creation of a run, the
	// end of the run for logs and workspaces, the last use of a cache, the time
	// of an event. For an artifact it is the time until which it was to be
	// kept.
	Since time.Time
}

// RetentionAPI is the API for clients that read the state of retention.
// Implementations are safe for concurrent use.
type RetentionAPI interface {
	// RetentionStatus returns the state of the retention workflow. Errors:
	// unavailable (also if no control worker answers).
	RetentionStatus(ctx context.Context) (RetentionStatus, error)
	// RetentionPreview returns, by kind, what r would remove at this moment,
	// with up to n items of each. It removes nothing. Errors: unavailable.
	RetentionPreview(ctx context.Context, r Retention, n int) ([]RetentionDue, error)
}
