// Package executor defines the contracts of an executor: Driver starts the
// environments of tasks, and Journal decides whether a task may run. Package
// agent runs tasks with them.
package executor

import (
	"context"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/drover-run/drover/run"
)

// Driver starts and finds environments in which tasks run. The task's key names its
// environment. Methods are safe for concurrent use, also with the same key; errors
// carry run codes.
//
// The order of calls for one key is Start, then Handle.Events until the task_end
// frame or an error, then Handle.Remove. After a restart of the process it is
// Attach, then the same.
type Driver interface {
	// Start creates the environment and starts the shim in it, which runs the steps.
	// The context covers the call only: the environment keeps running when it ends.
	// Start is idempotent by key: it reuses existing parts of the environment, and
	// steps never run twice, after any number of calls and if processes are killed in
	// between. If Start fails it removes what it created, unless task.Keep is set,
	// task.Launch has agreed, or another call, also of another process, has begun to
	// use it since. Errors: CodeInvalid if the task can not run here (the message
	// gives the reason: image pull failed, privileged refused), CodeUnavailable if the
	// driver's backend is unreachable, CodeNotFound if task.Resume is set and there is
	// no environment.
	Start(ctx context.Context, task Task) (Handle, error)
	// Attach finds an environment that is running, has ended, or was left by an
	// earlier call of Start before its steps began. In the last case Events fails with
	// CodeNotFound, and Start with Resume starts the steps. Errors: CodeNotFound.
	Attach(ctx context.Context, key run.Key) (Handle, error)
	// List returns the keys of all environments of this executor, including partial
	// ones.
	List(ctx context.Context) ([]run.Key, error)
	// Features returns the capabilities of the driver.
	Features() Features
	// Check returns nil when tasks can be started now.
	Check(ctx context.Context) error
}

// Task describes an environment to start.
type Task struct {
	Definition run.Definition
	// Log receives one line of the setup's log.
	Log func(line string)
	// Launch is called once, directly before the driver hands the definition to the
	// shim, that is before any step can run; also with Resume. It is not called if the
	// steps have begun already. It returns the number of the shim's first frame. If it
	// fails, Start fails and nothing runs.
	Launch func() (firstFrame int64, err error)
	// Resume means that an earlier process called Launch for this key: the environment
	// must exist, otherwise its steps might run twice.
	Resume bool
	// Keep makes a failing call leave what it created. In an executor set only the
	// member that has the key may remove any part of it, and a call may fail because
	// its own member has lost the key.
	Keep bool
	// HideServices means that the services may have been started with other secrets than the
	// definition has, so that their output cannot be masked: the driver must show none.
	HideServices bool
}

// Handle is an environment.
type Handle interface {
	// Events yields the shim's frames from number from on, in order and without gaps,
	// waiting for new ones, and ends after the task_end frame. An environment that
	// ended without one yields an error of CodeNotFound whose message gives the reason
	// (out of memory, killed from outside, host rebooted): its steps can never run
	// again. A journal that cannot be read, or lacks a frame, yields the error of
	// Damaged after the frames before the damage. Errors of CodeUnavailable mean that
	// the driver's backend is unreachable: call Events again later.
	Events(ctx context.Context, from int64) iter.Seq2[run.Frame, error]
	// CopyTo writes a tar stream below dir of the environment.
	CopyTo(ctx context.Context, dir string, tar io.Reader) error
	// CopyFrom reads path of the environment as a tar stream.
	CopyFrom(ctx context.Context, path string) (io.ReadCloser, error)
	// Stop asks the shim to stop the task: SIGTERM to the running step, SIGKILL after
	// grace, and then the cleanup steps. It returns once the shim has the request;
	// Events reports the end. Repeated calls have no further effect.
	Stop(ctx context.Context, grace time.Duration) error
	// Abort is Stop without a cleanup: no cleanup step begins any more, and one that
	// runs is stopped like any other step. A grace of 0 kills the running step at
	// once. It may follow Stop; a later Stop does not take it back.
	Abort(ctx context.Context, grace time.Duration) error
	// Remove removes the environment and all its contents, running or not. It is
	// idempotent.
	Remove(ctx context.Context) error
}

// ArchiveHandle is a Handle through which steps may move archives. Drivers with
// Features.Archives return it.
type ArchiveHandle interface {
	Handle
	// Connect connects to the waiting step in the environment, for a call of package
	// transfer. If no step waits, or the connection breaks, reading ends and writing
	// fails. Close may be called at any time and repeatedly; nothing that was started
	// for the connection remains after it. ctx covers establishing the connection
	// only. Errors: CodeUnavailable.
	Connect(ctx context.Context) (io.ReadWriteCloser, error)
}

// ExecHandle is a Handle in whose environment clients may run commands. Drivers with
// Features.Exec return it.
type ExecHandle interface {
	Handle
	// Exec starts a session in the environment: the messages of package execstream go
	// both ways. The end of the connection, also by the end of this process, ends the
	// command and all its processes, and not the task. Close may be called at any time
	// and repeatedly. ctx covers establishing the connection only. Errors:
	// CodeUnavailable.
	Exec(ctx context.Context) (io.ReadWriteCloser, error)
}

// ServiceHandle is a Handle whose services leave logs. Drivers with Features.Services
// return it.
type ServiceHandle interface {
	Handle
	// ServiceLogs returns the last output of each service, at most limit bytes of each and
	// up to now, sorted by service; none if there are no services. The output is as it was
	// written: it may contain secrets. It can be read until Remove, also after the end of
	// the services. With an error it returns what it could read. Errors: CodeNotFound,
	// CodeUnavailable.
	ServiceLogs(ctx context.Context, limit int) ([]ServiceLog, error)
}

// Features lists what a driver can do. The conformance suite runs a case only if
// the driver declares the feature.
type Features struct {
	Name     string // "shell", "docker", ...
	Images   bool   // tasks name an image
	Services bool
	// ServiceNetworks: services may have a network of their own.
	ServiceNetworks bool
	Helpers         bool // steps with images of their own, in helper containers
	User            bool
	Tmpfs           bool
	Volumes         bool // persistent ones
	HostPaths       bool // mounts of paths of the host
	Devices         bool // of the host
	Resources       bool // cpu and memory limits, and OOM is reported
	PIDs            bool // a limit on the number of processes
	Privileged      bool // privileged tasks are allowed by this executor
	Copy            bool // CopyTo and CopyFrom
	Archives        bool // handles implement ArchiveHandle
	// SecretFiles: secrets as files, in memory.
	SecretFiles bool
	Exec        bool // handles implement ExecHandle
	// Checkouts: steps that check out a repository and have no image.
	Checkouts  bool
	ExtraHosts bool // further names of hosts
}

// List returns the features in the form of the control plane, sorted.
func (f Features) List() []run.Feature {
	list := make([]run.Feature, 0)
	for feature, has := range map[run.Feature]bool{
		run.FeatureImages: f.Images, run.FeatureStepImages: f.Helpers, run.FeatureServices: f.Services, run.FeatureCheckouts: f.Checkouts,
		run.FeatureOwnNetworks: f.ServiceNetworks,
		run.FeatureUsers:       f.User, run.FeatureTmpfs: f.Tmpfs, run.FeatureVolumes: f.Volumes, run.FeatureHostPaths: f.HostPaths, run.FeatureDevices: f.Devices, run.FeatureExtraHosts: f.ExtraHosts, run.FeatureLimits: f.Resources,
		run.FeatureProcessLimits: f.PIDs, run.FeaturePrivileged: f.Privileged, run.FeatureSecretFiles: f.SecretFiles,
		run.FeatureArchives: f.Archives, run.FeatureExec: f.Exec,
	} {
		if has {
			list = append(list, feature)
		}
	}
	slices.Sort(list)
	return list
}
