package run

import "time"

// Limits of a specification. Validate or the reader of the input checks each of
// them, with an error that names it.
const (
	MaxRequestBytes = 8 << 20   // of one request body
	MaxTasks        = 10_000    // of one run, after expansion
	MaxSteps        = 256       // of one task
	MaxScriptBytes  = 512 << 10 // of one step's script
	MaxChangeGroups = 64        // of one run
	MaxOutputBytes  = 1 << 20   // of one task's outputs
	MaxForeach      = 5_000     // items of one foreach
	MaxNameLength   = 100       // of a run's or a task's name, in bytes
	MaxAttempts     = 100       // of one task

	MaxExpandedName    = 250       // of a task's name with the suffix of its expansion, in bytes
	MaxGroupLength     = 500       // of a run's group, in bytes
	MaxDependencies    = 100_000   // of all tasks of one run, before expansion
	MaxApprovers       = 100       // of one task
	MaxAnnotations     = 100       // of one run or task
	MaxAnnotationBytes = 1 << 10   // of an annotation's value
	MaxArchivePaths    = 1000      // of one archive step
	MaxArchivePath     = 4 << 10   // of one of them, in bytes
	MaxCacheKeys       = 20        // of one restore_cache
	MaxCacheKeyBytes   = 512       // of a key, as written and as evaluated
	MaxVariableBytes   = 128 << 10 // of NAME=value: Linux does not start a process with more
)

// StopGrace is the time between SIGTERM and SIGKILL for a step that is stopped.
const StopGrace = 10 * time.Second
