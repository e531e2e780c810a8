// Package shim supervises one task inside its environment: it runs the steps
// in order, enforces their timeouts, and tells what happens as numbered frames.
// The binary is cmd/drover-shim; drivers read what it writes through Tail and
// Scan. It imports the domain and the system, nothing else, so that the binary
// stays small.
//
// # Directory
//
// A shim has a directory of its own in the environment:
//
//	lock      locked by the shim as long as it lives; holds a State
//	journal   one run.Frame a line, as JSON; begun by exclusive create
//	stop      the wish to stop the task: a StopWish
//	order     a socket at which the order is handed over, where it comes so
//	step-N.*  script and output file of a step; where the steps have a user of
//	          their own, in the directory steps that is that user's
//
// Where a journal exists the shim runs nothing: steps run at most once,
// whatever is started how often.
//
// # Signals
//
// Before the end of the task SIGTERM, SIGINT and SIGUSR1 are the wish to stop
// it: the step's process group gets SIGTERM, and SIGKILL after the grace of the
// definition (or of the file stop); nothing more is run. With Options.Host or
// Options.Strict, a SIGTERM or SIGINT without the file stop is no wish of Drover
// but of whoever shuts the host or the environment down: the task ends as failed.
//
// After the end SIGTERM is the acknowledgment that a shim with Options.Linger
// waits for.
//
// # Background processes
//
// What a step leaves running lives until the task ends; what it prints is kept
// under its step. At the end of the task everything that is left gets SIGTERM,
// then SIGKILL; on Linux also what has left its process group and session.
package shim
