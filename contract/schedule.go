package contract

import (
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// ScheduledRunWorkflow is one firing of a schedule: it creates a run, and stays
// open until the run is final, so that Temporal's overlap policies and its
// pause on failure apply to the run.
const ScheduledRunWorkflow = "scheduled-run"

// Activities of a firing.
const (
	ActivityFireSchedule = "fire-schedule"
	ActivityAwaitRun     = "await-run"
	ActivityEndRun       = "end-run"
)

// AttributeScheduledFor is the search attribute that Temporal sets on the
// workflows that a schedule starts: the scheduled time.
const AttributeScheduledFor = "TemporalScheduledStartTime"

// ErrorRunFailed and ErrorNotCreated are types of the errors with which a
// firing ends: the run failed, and no run was created. The workflow of a failed
// run ends with ErrorRunFailed too.
const (
	ErrorRunFailed  = "run_failed"
	ErrorNotCreated = "run_not_created"
)

// ScheduleID is the id of a schedule in Temporal.
func ScheduleID(name string) string { return "schedule:" + name }

// ScheduledRunWorkflowID is the workflow id of the firings of a schedule.
// Temporal appends the scheduled time to it.
func ScheduledRunWorkflowID(name string) string { return "scheduled-run:" + name }

// FiringKey identifies a firing by the first execution of its workflow. The
// scheduled time does not identify it: a backfill may repeat the same time.
func FiringKey(workflowID, firstRunID string) string { return workflowID + "/" + firstRunID }

// SplitFiringKey returns the parts from which FiringKey made a key.
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
	Run    run.ID     `json:"run,omitempty"` // "" if the schedule was deleted
	Phase  run.Phase  `json:"phase,omitempty"`
	Result run.Result `json:"result,omitempty"`
}

// FireInput is the input of fire-schedule.
type FireInput struct {
	Schedule     string    `json:"schedule"`
	Key          string    `json:"key"`           // of the firing: it creates one run
	ScheduledFor time.Time `json:"scheduled_for"` // the scheduled time
	Started      time.Time `json:"started"`       // when the workflow was started
}

// FireResult is the result of fire-schedule. At most one field is set; none if
// the schedule was deleted.
type FireResult struct {
	Run run.ID `json:"run,omitempty"`
	// Refused says why no run can be created.
	Refused string `json:"refused,omitempty"`
}

// AwaitRunInput is the input of await-run.
type AwaitRunInput struct {
	Run run.ID `json:"run"`
}

// AwaitRunResult is the result of await-run: how the run ended; the phase is ""
// if the run was deleted.
type AwaitRunResult struct {
	Phase  run.Phase  `json:"phase,omitempty"`
	Result run.Result `json:"result,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// EndRunInput is the input of end-run, which cancels a queued run and stops a
// running one.
type EndRunInput struct {
	Run run.ID `json:"run"`
}
