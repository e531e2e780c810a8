package contract

import (
	"time"

	"github.com/drover-run/drover/run"
)

// RetentionWorkflow removes what is kept no longer by the configuration, now
// and then. There is at most one. It answers the query state by a
// run.RetentionStatus.
const RetentionWorkflow = "retention"

// RetentionWorkflowID is its workflow id.
const RetentionWorkflowID = "retention"

// SignalRetention tells the workflow what the configuration is; run.Retention.
const SignalRetention = "retention-configured"

// ActivityDeleteRuns deletes runs that are kept no longer, for a bounded time.
const ActivityDeleteRuns = "delete-runs"

// RetentionInput starts the workflow.
type RetentionInput struct {
	Retention run.Retention `json:"retention"`
	// Limits bound the execution; nil means the defaults.
	Limits *Limits `json:"limits,omitempty"`
	// Since and Removed are of the executions before.
	Since   time.Time                              `json:"since,omitzero"`
	Removed map[run.RetentionKind]run.RetentionSum `json:"removed,omitempty"`
}

// ActivityExpireLogs removes the logs of runs that are kept no longer, for a
// bounded time.
const ActivityExpireLogs = "expire-logs"

// ExpireLogsInput is the input of expire-logs.
type ExpireLogsInput struct {
	Keep run.LogRetention `json:"keep"`
}

// ExpireLogsResult is the result of expire-logs.
type ExpireLogsResult struct {
	Runs  int   `json:"runs"` // whose logs were removed
	Bytes int64 `json:"bytes"`
	More  bool  `json:"more,omitempty"` // to be called again at once
}

// DeleteRunsInput is the input of delete-runs.
type DeleteRunsInput struct {
	Keep      run.RunsRetention `json:"keep"`
	PerSecond int               `json:"per_second,omitempty"` // 0 is no bound
}

// DeleteRunsResult is the result of delete-runs.
type DeleteRunsResult struct {
	Deleted int  `json:"deleted"`
	More    bool `json:"more,omitempty"` // to be called again at once
}

// ActivityExpireArchives removes archives of a kind that are kept no longer, for
// a bounded time.
const ActivityExpireArchives = "expire-archives"

// ExpireArchivesInput is the input of expire-archives.
type ExpireArchivesInput struct {
	Kind      run.ArchiveKind      `json:"kind"`
	Keep      run.ArchiveRetention `json:"keep"`
	PerSecond int                  `json:"per_second,omitempty"` // 0 is no bound
}

// ExpireArchivesResult is the result of expire-archives.
type ExpireArchivesResult struct {
	Archives int   `json:"archives"`
	Bytes    int64 `json:"bytes"`
	More     bool  `json:"more,omitempty"` // to be called again at once
}
