package contract

import (
	"time"

	"github.com/drover-run/drover/run"
)

// RetentionWorkflow periodically removes the data that the configuration does
// not keep. There is at most one. It answers the query state with a
// run.RetentionStatus.
const RetentionWorkflow = "retention"

// RetentionWorkflowID is its workflow id.
const RetentionWorkflowID = "retention"

// SignalRetention sends the configuration to the workflow; the payload is
// run.Retention.
const SignalRetention = "retention-configured"

// ActivityDeleteRuns deletes expired runs, for a bounded time.
const ActivityDeleteRuns = "delete-runs"

// RetentionInput starts the workflow.
type RetentionInput struct {
	Retention run.Retention `json:"retention"`
	// Limits bound the execution; nil means the defaults.
	Limits *Limits `json:"limits,omitempty"`
	// Since and Removed are carried over from earlier executions.
	Since   time.Time                              `json:"since,omitzero"`
	Removed map[run.RetentionKind]run.RetentionSum `json:"removed,omitempty"`
}

// ActivityExpireLogs removes the logs of runs whose logs have expired, for a
// bounded time.
const ActivityExpireLogs = "expire-logs"

// ExpireLogsInput is the input of expire-logs.
type ExpireLogsInput struct {
	Keep      run.LogRetention `json:"keep"`
	PerSecond int              `json:"per_second,omitempty"` // 0 is no bound
}

// ExpireLogsResult is the result of expire-logs.
type ExpireLogsResult struct {
	Runs  int   `json:"runs"` // whose logs were removed
	Bytes int64 `json:"bytes"`
	More  bool  `json:"more,omitempty"` // more is left; call it again at once
}

// DeleteRunsInput is the input of delete-runs.
type DeleteRunsInput struct {
	Keep      run.RunsRetention `json:"keep"`
	PerSecond int               `json:"per_second,omitempty"` // 0 is no bound
}

// DeleteRunsResult is the result of delete-runs.
type DeleteRunsResult struct {
	Deleted int  `json:"deleted"`
	More    bool `json:"more,omitempty"` // more is left; call it again at once
}

// ActivityExpireArchives removes expired archives of a kind, for a bounded
// time.
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
	More     bool  `json:"more,omitempty"` // more is left; call it again at once
}
