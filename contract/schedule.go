package contract

import (
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// ScheduledRunWorkflow is one firing of a schedule: it has a run made, and is
// open for as long as that is, so that Temporal's overlap policies and its
// pause on failure mean what they say.
const ScheduledRunWorkflow = "scheduled-run"

// Activities of a firing.
const (
	ActivityFire     = "fire"
	ActivityAwaitRun = "await-run"
	ActivityEndRun   = "end-run"
)

// AttributeScheduledFor is the search attribute that Temporal gives the
// workflows that a schedule starts: the time that they are meant for.
const AttributeScheduledFor = "TemporalScheduledStartTime"

// ErrorRunFailed and ErrorNotMade are types of the errors that a firing ends
// with: its run failed, and no run was made.
const (
	ErrorRunFailed = "run_failed"
	ErrorNotMade   = "not_made"
)

// ScheduleID is the id of a schedule in Temporal.
func ScheduleID(name string) string { return "schedule:" + name }

// ScheduledRunWorkflowID is the workflow id of the firings of a schedule. The
// time that each is meant for is appended to it by Temporal.
func ScheduledRunWorkflowID(name string) string { return "scheduled-run:" + name }

// FiringKey names a firing by the first execution of its workflow. The time
// that it is meant for would not do: a backfill may ask for the same one again.
func FiringKey(workflowID, firstRunID string) string { return workflowID + "/" + firstRunID }

// SplitFiringKey returns what FiringKey made a key of.
func SplitFiringKey(key string) (workflowID, firstRunID string) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 {
		return key, ""
	}
	return key[:i], key[i+1:]
}

// ScheduledRunInput starts the workflow of a firing.
type ScheduledRunInput struct {
	Schedule string `json:"schedule"`
}

// ScheduledRunOutput is the result of a firing whose run did not fail.
type ScheduledRunOutput struct {
	Run    run.ID     `json:"run,omitempty"` // "" where the schedule was deleted
	Phase  run.Phase  `json:"phase,omitempty"`
	Result run.Result `json:"result,omitempty"`
}

// FireInput is the input of fire.
type FireInput struct {
	Schedule string    `json:"schedule"`
	Key      string    `json:"key"` // of the firing: one run is made for it
	For      time.Time `json:"for"` // the time that it is meant for
	At       time.Time `json:"at"`  // when the workflow was started
}

// FireResult is the result of fire. At most one field is set; none where the
// schedule was deleted.
type FireResult struct {
	Run run.ID `json:"run,omitempty"`
	// Refused says why no run can be made.
	Refused string `json:"refused,omitempty"`
}

// AwaitRunInput is the input of await-run.
type AwaitRunInput struct {
	Run run.ID `json:"run"`
}

// AwaitRunResult is how a run ended; the phase is "" where it was deleted.
type AwaitRunResult struct {
	Phase  run.Phase  `json:"phase,omitempty"`
	Result run.Result `json:"result,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// EndRunInput is the input of end-run, which cancels a run that is queued, and
// has one stopped that is running.
type EndRunInput struct {
	Run run.ID `json:"run"`
}
