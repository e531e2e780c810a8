package run

// RestartTask says what becomes of a task in a restart.
type RestartTask struct {
	Name string
	// Kept says that the task keeps its result, log and outputs of the old run.
	Kept bool
	// Reason is why the task runs, "" if it is kept.
	Reason RestartReason
	// Detail is the path of the first changed key if Reason is RestartChanged, and the name of
	// the other task if it is RestartDependency.
	Detail string
}

// RestartReason is why a task of a restart runs.
type RestartReason string

// The reasons for which a task runs.
const (
	RestartFromStart   RestartReason = "start"      // all tasks run
	RestartRequested   RestartReason = "requested"  // the request names it
	RestartTaskFailed  RestartReason = "failed"     // in the old run
	RestartTaskStopped RestartReason = "stopped"    // in the old run
	RestartNotRun      RestartReason = "not_run"    // in the old run
	RestartSkipped     RestartReason = "skipped"    // in the old run, which is decided again
	RestartIncomplete  RestartReason = "incomplete" // tasks of its foreach did not succeed
	RestartNew         RestartReason = "new"        // the old run did not have it
	RestartChanged     RestartReason = "changed"    // the specification has another definition of it
	RestartDependency  RestartReason = "dependency" // it depends on a task that runs
	RestartFinally     RestartReason = "finally"    // finally tasks always run
)
