package shim

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"time"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

// Options configure a shim.
type Options struct {
	// Dir is the shim's directory; it is created if it is missing.
	Dir string
	// Order provides the order; it is read once. Nil means that the shim waits for the
	// order at the socket HandoverFile of Dir, see Handover.
	Order io.Reader
	// OrderFile is removed once the journal has begun, since it contains secrets. ""
	// removes nothing.
	OrderFile string
	// LockFD is an open lock file that the driver has locked already; 0 means that the
	// shim takes the lock itself.
	LockFD int
	// Stdout receives a copy of the frames as lines "<Nonce> <frame>"; nil means none.
	Stdout io.Writer
	Nonce  string
	// Host means that the shim runs on a host, not in an environment of the task: a
	// SIGTERM without a stop file comes from outside of Drover, and a lack of memory
	// is not reported.
	Host bool
	// Strict means that other components than Drover may end the environment: a
	// SIGTERM or SIGINT without a stop file comes from them.
	Strict bool
	// Environment and WorkingDir are those of the shim process. The base environment
	// and the working directory of the order take precedence. HOME is dropped if the
	// steps have another user.
	Environment map[string]string
	WorkingDir  string
	// Linger makes the shim wait for the acknowledgment after the end.
	Linger bool
	// Log receives messages about the shim itself.
	Log *slog.Logger
}

// drainCopy bounds the wait for the reader of the copy when the shim ends.
const drainCopy = 2 * time.Second

// Run runs the task of the order, and returns the exit code of the process, which
// must end then: Run takes over its signals and children permanently. Run ignores
// the end of ctx: a task ends by its steps, its timeouts or a signal.
func Run(ctx context.Context, o Options) int {
	started := time.Now().UTC()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		o.Log.ErrorContext(ctx, "failed to create directory", "error", err)
		return ExitFiles
	}
	lock, err := o.lock()
	if errors.Is(err, process.ErrLocked) {
		o.Log.ErrorContext(ctx, "another shim runs in the directory", "dir", o.Dir)
		return ExitLocked
	}
	if err != nil {
		o.Log.ErrorContext(ctx, "failed to lock directory", "error", err)
		return ExitFiles
	}
	defer func() { _ = lock.Close() }()

	if o.Order == nil && journal.Exists(o.Dir) {
		o.Log.ErrorContext(ctx, "shim refuses to run the steps again", "error", journal.ErrExists)
		return ExitExists
	}
	order, begun, err := o.takeOrder(ctx)
	if err != nil {
		o.Log.ErrorContext(ctx, "shim refuses the order", "error", err)
		return ExitOrder
	}
	if journal.Exists(o.Dir) { // journal.Create checks again; checked here so that the state stays unchanged
		o.Log.ErrorContext(ctx, "shim refuses to run the steps again", "error", journal.ErrExists)
		begun(journal.ErrExists)
		return ExitExists
	}
	o.complete(&order)
	control := newControl(o, order.Definition.Grace)
	control.listen()
	state := process.State{PID: os.Getpid(), Boot: process.BootID()}
	// Written before the check for a stop request: the writer of a later request finds
	// the process number.
	if err := state.Write(lock); err != nil {
		o.Log.ErrorContext(ctx, "failed to write state", "error", err)
		begun(err)
		return ExitFiles
	}
	control.checkStopFile()

	var copyTo *journal.Copy
	if o.Stdout != nil {
		copyTo = journal.NewCopy(o.Stdout, o.Nonce)
	}
	j, err := journal.Create(o.Dir, journal.Options{First: order.FirstFrame, LogLimit: order.Definition.LogLimit, Copy: copyTo})
	begun(err)
	if errors.Is(err, journal.ErrExists) {
		o.Log.ErrorContext(ctx, "shim refuses to run the steps again", "error", err)
		return ExitExists
	}
	if err != nil {
		o.Log.ErrorContext(ctx, "failed to create journal", "error", err)
		return ExitFiles
	}
	if o.OrderFile != "" {
		_ = os.Remove(o.OrderFile)
	}
	t := &task{
		dir: o.Dir, host: o.Host, order: order, journal: j, reaper: process.NewReaper(), control: control,
		secrets: mask.NewSet(order.Definition.Secrets), started: started,
	}
	result := t.run(context.WithoutCancel(ctx))

	control.end()
	state.Clean = true
	if err := state.Write(lock); err != nil {
		o.Log.ErrorContext(ctx, "failed to write the clean end", "error", err)
	}
	j.Append(run.Frame{Time: result.Ended, Kind: run.FrameTaskEnd, Step: run.SetupStep, Status: result.Status, ExitCode: result.ExitCode, TimedOut: result.TimedOut, Result: &result})
	if err := j.Close(); err != nil {
		o.Log.ErrorContext(ctx, "failed to sync journal", "error", err)
	}
	state.Ended = true
	if err := state.Write(lock); err != nil {
		o.Log.ErrorContext(ctx, "failed to write that the journal is complete", "error", err)
	}
	if o.Linger {
		<-control.acknowledged
	}
	drainCtx, cancel := context.WithTimeout(ctx, drainCopy)
	defer cancel()
	copyTo.Close(drainCtx.Done())
	return ExitDone
}

func (o Options) lock() (*os.File, error) {
	if o.LockFD > 0 {
		return process.InheritedLock(o.LockFD), nil
	}
	return process.Lock(o.Dir)
}

// takeOrder waits for the order. It returns a function that reports to the sender
// of the order whether the task has begun.
func (o Options) takeOrder(ctx context.Context) (_ run.ShimSpec, begun func(error), err error) {
	if o.Order != nil {
		order, err := ReadOrder(o.Order)
		return order, func(error) {}, err
	}
	r, err := newReceiver(ctx, o.Dir)
	if err != nil {
		return run.ShimSpec{}, nil, err
	}
	order, err := r.receive()
	return order, r.answer, err
}

// complete adds the environment of the shim process to an order.
func (o Options) complete(order *run.ShimSpec) {
	base := maps.Clone(o.Environment)
	if base == nil {
		base = make(map[string]string)
	}
	if order.User != "" || order.Definition.User != "" {
		delete(base, "HOME")
	}
	maps.Copy(base, order.BaseEnvironment)
	order.BaseEnvironment = base
	if order.WorkingDir == "" {
		order.WorkingDir = o.WorkingDir
	}
}

// Exit codes of drover-shim. They are a contract with the drivers.
const (
	ExitDone      = 0  // the task's end was written
	ExitUsage     = 2  // wrong arguments
	ExitOrder     = 3  // the order is missing, truncated or not supported; nothing was run
	ExitNoJournal = 4  // read: there is no journal
	ExitExists    = 5  // a journal exists already; nothing was run
	ExitLocked    = 6  // another shim runs in the directory; nothing was run
	ExitFiles     = 7  // the directory can not be used; nothing was run
	ExitEnded     = 8  // read --follow: the shim ended without the task's end
	ExitNoPort    = 9  // await-port: nothing listens
	ExitNoShim    = 10 // hand: no shim accepts the order; connect: no step waits
	ExitNoFile    = 11 // pack: there is no such file
	ExitDamaged   = 12 // read: the journal is damaged, and the task continues
	ExitSpoiled   = 13 // read: the journal is damaged, and nothing is written to it any more
)

// Done is the line that stop, unpack, read --verify and await-port with a count
// print on success, besides ExitDone: a call whose connection broke off may look
// like a program that ended with 0.
const Done = "done\n"
