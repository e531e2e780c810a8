// Package shim supervises one task inside its environment: it runs the steps in
// order, enforces their timeouts, and reports events as numbered frames. The binary
// is cmd/drover-shim. Package journal has the journal, which drivers read, and package
// process all that depends on the system. They import the domain and the system,
// nothing else, so that the binary stays small.
//
// # Directory
//
// A shim has a directory of its own in the environment:
//
//	lock      locked by the shim as long as it runs; holds a process.State
//	journal   one run.Frame a line, as JSON; begun by exclusive create
//	stop      the request to stop the task: a StopRequest
//	abort     the same for a stop without a cleanup, which no later stop replaces
//	order     the socket that accepts the order, if Options.Order is nil
//	step-N.*  script and output file of a step; if the steps have a user of
//	          their own, in the directory steps that belongs to that user
//
// If a journal exists the shim runs nothing: steps run at most once, however often
// the shim is started.
//
// # Signals
//
// Before the end of the task SIGTERM, SIGINT and SIGUSR1 request a stop: the step's
// process group gets SIGTERM, and SIGKILL after the grace of the definition (or of
// the file stop); then only cleanup steps run, and none if the request says so. With
// Options.Host or Options.Strict, a SIGTERM or SIGINT comes from the shutdown of the
// host or the environment: there is no cleanup, and the task ends as failed unless
// the file stop exists.
//
// After the end SIGTERM is the acknowledgment that a shim with Options.Linger waits
// for.
//
// # Output
//
// A step has one pipe for stdout and stderr, or two that are read in the order of the
// writes (run.Streams). Secrets are masked before a frame is written.
//
// # Background processes
//
// Processes that a step leaves running live until the task ends; their output is
// stored under that step. At the end of the task all remaining processes get SIGTERM,
// then SIGKILL; on Linux also those that have left their process group and session.
package shim
