package contract

import "github.com/drover-run/drover/run"

// RetentionWorkflow deletes what is kept no longer by the configuration, now
// and then. There is at most one, and none where everything is kept.
const RetentionWorkflow = "retention"

// RetentionWorkflowID is its workflow id.
const RetentionWorkflowID = "retention"

// SignalRetention tells the workflow what the configuration is; Retention.
const SignalRetention = "retention-configured"

// ActivityDeleteRuns deletes runs that are kept no longer, a bounded number at
// a time.
const ActivityDeleteRuns = "delete-runs"

// Retention says what is kept. The zero value keeps everything.
type Retention struct {
	// Interval is how long it waits from one look to the next.
	Interval run.Duration   `json:"interval"`
	Logs     LogRetention   `json:"logs,omitzero"`
	Runs     RunRetention   `json:"runs,omitzero"`
	Events   EventRetention `json:"events,omitzero"`
}

// LogRetention says which logs expire: those of runs that ended longer ago.
type LogRetention struct {
	MaxAge run.Duration `json:"max_age,omitempty"` // 0 is no bound
	// PerSecond is of how many runs logs are removed in a second; 0 is no bound.
	PerSecond int `json:"per_second,omitempty"`
}

// RunRetention says which runs that have ended are deleted: those that all
// bounds allow that are set.
type RunRetention struct {
	MaxAge run.Duration `json:"max_age,omitempty"` // older ones; 0 is no bound
	Keep   int          `json:"keep,omitempty"`    // those beyond the newest of their group; 0 is no bound
}

// EventRetention says which events are deleted: those that any bound allows
// that is set.
type EventRetention struct {
	MaxAge run.Duration `json:"max_age,omitempty"`
	Keep   int64        `json:"keep,omitempty"`
}

// Off reports whether everything is kept.
func (r Retention) Off() bool {
	return r.Runs == RunRetention{} && r.Events == EventRetention{} && r.Logs.MaxAge == 0
}

// RetentionInput starts the workflow.
type RetentionInput struct {
	Retention Retention `json:"retention"`
	// Limits bound the execution; nil means the defaults.
	Limits *Limits `json:"limits,omitempty"`
}

// RetentionState is what the query state returns: what this execution did.
type RetentionState struct {
	Retention Retention `json:"retention"`
	Runs      int       `json:"runs"`   // deleted
	Events    int       `json:"events"` // deleted
	Logs      int       `json:"logs"`   // runs whose logs were removed
}

// ActivityExpireLogs removes the logs of runs that are kept no longer, for a
// bounded time.
const ActivityExpireLogs = "expire-logs"

// ExpireLogsInput is the input of expire-logs.
type ExpireLogsInput struct {
	Keep LogRetention `json:"keep"`
}

// ExpireLogsResult is the result of expire-logs.
type ExpireLogsResult struct {
	Runs  int   `json:"runs"` // whose logs were removed
	Bytes int64 `json:"bytes"`
	More  bool  `json:"more,omitempty"` // to be called again at once
}

// DeleteRunsInput is the input of delete-runs.
type DeleteRunsInput struct {
	Keep RunRetention `json:"keep"`
}

// DeleteRunsResult is the result of delete-runs.
type DeleteRunsResult struct {
	Deleted int  `json:"deleted"`
	More    bool `json:"more,omitempty"` // to be called again at once
}
