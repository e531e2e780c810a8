// Package executor runs tasks on one host or for one cluster: the contract of
// drivers, the journal that owns a task's truth, and the life cycle between
// them. It knows nothing of Temporal; package activities connects the two.
package executor

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/drover-run/drover/run"
)

// Driver starts and finds environments in which tasks run. An environment is
// named by its task's key. Methods are safe for concurrent use, also with the
// same key; errors carry run codes.
//
// The order of calls for one key is Start, then Handle.Events until the
// task_end frame or an error, then Handle.Remove. After the process was killed
// it is Attach, then as before.
type Driver interface {
	// Start makes the environment and starts the shim in it, which runs the
	// steps. The context is of the call alone: what was started goes on when
	// it ends. It is idempotent by key: what exists of the environment is used,
	// and steps never run twice, however often it is called and whoever was
	// killed in between. Where it fails it removes what it made, unless task.Keep
	// is set, task.Launch has agreed, or another call, also of another process,
	// has begun to use it since. Errors: CodeInvalid where the task can not run
	// here (told in the message: image pull failed, privileged refused),
	// CodeUnavailable where the driver's own service is out of reach,
	// CodeNotFound where task.Resume is set and there is no environment.
	Start(ctx context.Context, task Task) (Handle, error)
	// Attach finds an environment: running, ended, or one that an earlier call
	// of Start left before its steps began, whose Events then fail with
	// CodeNotFound, and which Start with Resume brings to run. Errors:
	// CodeNotFound.
	Attach(ctx context.Context, key run.Key) (Handle, error)
	// List returns the keys of all environments of this executor, also of
	// partial ones.
	List(ctx context.Context) ([]run.Key, error)
	// Features tells what the driver can do.
	Features() Features
	// Check returns nil when tasks can be started now.
	Check(ctx context.Context) error
}

// Task is an order to start an environment.
type Task struct {
	Definition run.Definition
	// Log takes one line of the setup's log.
	Log func(line string)
	// Launch is called once, directly before the definition is handed to the
	// shim, that is before any step can run; also with Resume. It is not
	// called where the steps have begun already. It returns the number that
	// the shim's first frame gets. Where it fails, Start fails and nothing
	// runs.
	Launch func() (firstFrame int64, err error)
	// Resume says that Launch was called for this key by an earlier process:
	// the environment must exist, else its steps might run twice.
	Resume bool
	// Keep says that a call that fails leaves what it made. In an executor set
	// only the member that has the key may remove anything of it, and a call may
	// fail because its own has it no more.
	Keep bool
}

// Handle is one environment.
type Handle interface {
	// Events yields the shim's frames from number from on, in order and
	// without gaps, waiting for new ones, and ends after the task_end frame.
	// An environment that ended without one yields an error of CodeNotFound
	// whose message says why (out of memory, killed from outside, host
	// rebooted): its steps can never run again. A journal that cannot be read,
	// or lacks a frame, yields the error of Damaged behind the frames before
	// the damage. Errors of CodeUnavailable mean that the driver is out of
	// reach: call Events again later.
	Events(ctx context.Context, from int64) iter.Seq2[run.Frame, error]
	// CopyTo writes a tar stream below dir of the environment.
	CopyTo(ctx context.Context, dir string, tar io.Reader) error
	// CopyFrom reads path of the environment as a tar stream.
	CopyFrom(ctx context.Context, path string) (io.ReadCloser, error)
	// Stop asks the shim to stop the task: SIGTERM to the step that runs,
	// SIGKILL after grace. It returns when the wish was handed over; the end
	// is told by Events.
	Stop(ctx context.Context, grace time.Duration) error
	// Remove removes the environment and all it holds, running or not. It is
	// idempotent.
	Remove(ctx context.Context) error
}

// Courier is a Handle through which steps may move archives: those of drivers
// with Features.Archives.
type Courier interface {
	Handle
	// Connect joins to the step that waits in the environment, for a call of
	// package transfer. Where none waits, or the way there breaks, reading ends
	// and writing fails. Close may be called at any time, and again; nothing
	// that was started for the connection is left after it. ctx bounds making
	// the connection alone. Errors: CodeUnavailable.
	Connect(ctx context.Context) (io.ReadWriteCloser, error)
}

// Features says what a driver can do; the conformance suite runs a case where
// the driver declares it.
type Features struct {
	Name       string // "shell", "docker", ...
	Images     bool   // tasks name an image
	Services   bool
	User       bool
	Tmpfs      bool
	Resources  bool // cpu and memory limits, and OOM is told
	PIDs       bool // a limit on processes
	Privileged bool // privileged tasks are allowed by this executor
	Copy       bool // CopyTo and CopyFrom
	Archives   bool // handles are Couriers
	// SecretFiles: secrets as files, in memory
	SecretFiles bool
}
