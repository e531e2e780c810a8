package shim

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"time"

	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

// Options say how a shim runs.
type Options struct {
	// Dir is the shim's directory; it is made where it is missing.
	Dir string
	// Order gives the order; it is read once. Nil means that it is handed over
	// at the socket HandoverFile of Dir, see Handover: the shim waits for it.
	Order io.Reader
	// OrderFile is removed once the journal has begun: it holds secrets. ""
	// removes nothing.
	OrderFile string
	// LockFD is an open lock file that the driver has locked already; 0 means
	// that the shim locks by itself.
	LockFD int
	// Stdout takes a copy of the frames as lines "<Nonce> <frame>"; nil means
	// none.
	Stdout io.Writer
	Nonce  string
	// Host says that the shim runs on a host, not in an environment of the
	// task's own: a SIGTERM without a stop wish in its file comes from outside
	// of Drover, and want of memory is not told.
	Host bool
	// Strict says that others than Drover may end the environment: a SIGTERM
	// or SIGINT without a stop wish in its file comes from them.
	Strict bool
	// Environment lies below the order's base environment, and WorkingDir
	// below its working directory: what the environment gave to the shim
	// itself. HOME is left out of it where the steps have another user.
	Environment map[string]string
	WorkingDir  string
	// Linger makes the shim wait for the acknowledgment after the end.
	Linger bool
	// Log takes what people need to know of the shim itself.
	Log *slog.Logger
}

// drainCopy bounds the wait for the copy's reader when the shim ends.
const drainCopy = 2 * time.Second

// Run runs the task of the order, and returns the exit code of the process,
// which is to end then: its signals and its children are Run's for good.
// When ctx ends it goes on: a task ends by its steps, its timeouts or a signal.
func Run(ctx context.Context, o Options) int {
	started := time.Now().UTC()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		o.Log.ErrorContext(ctx, "making the directory", "error", err)
		return ExitFiles
	}
	lock, err := o.lock()
	if errors.Is(err, ErrLocked) {
		o.Log.ErrorContext(ctx, "another shim lives in the directory", "dir", o.Dir)
		return ExitLocked
	}
	if err != nil {
		o.Log.ErrorContext(ctx, "locking the directory", "error", err)
		return ExitFiles
	}
	defer func() { _ = lock.Close() }()

	if o.Order == nil && HasJournal(o.Dir) {
		o.Log.ErrorContext(ctx, "refusing to run the steps again", "error", errExists)
		return ExitExists
	}
	order, begun, err := o.takeOrder(ctx)
	if err != nil {
		o.Log.ErrorContext(ctx, "refusing the order", "error", err)
		return ExitOrder
	}
	if HasJournal(o.Dir) { // asked again by the exclusive create; here, so that the state stays as it is
		o.Log.ErrorContext(ctx, "refusing to run the steps again", "error", errExists)
		begun(errExists)
		return ExitExists
	}
	o.complete(&order)
	control := newControl(o, order.Definition.Grace)
	control.listen()
	state := State{PID: os.Getpid(), Boot: BootID()}
	// Before the look for a stop wish: who leaves one later finds the number.
	if err := state.write(lock); err != nil {
		o.Log.ErrorContext(ctx, "using the directory", "error", err)
		begun(err)
		return ExitFiles
	}
	control.look()

	var copyTo *stdoutCopy
	if o.Stdout != nil {
		copyTo = newStdoutCopy(o.Stdout, o.Nonce)
	}
	j, err := createJournal(o.Dir, order.FirstFrame, copyTo)
	begun(err)
	if errors.Is(err, errExists) {
		o.Log.ErrorContext(ctx, "refusing to run the steps again", "error", err)
		return ExitExists
	}
	if err != nil {
		o.Log.ErrorContext(ctx, "using the directory", "error", err)
		return ExitFiles
	}
	j.limit.most = order.Definition.LogLimit
	if o.OrderFile != "" {
		_ = os.Remove(o.OrderFile)
	}
	t := &task{
		dir: o.Dir, host: o.Host, order: order, journal: j, reaper: newReaper(), control: control,
		secrets: mask.NewSet(order.Definition.Secrets), started: started,
	}
	result := t.run()

	control.end()
	state.Clean = true
	if err := state.write(lock); err != nil {
		o.Log.ErrorContext(ctx, "telling the clean end", "error", err)
	}
	j.append(run.Frame{Time: result.Ended, Kind: run.FrameTaskEnd, Step: run.SetupStep, Status: result.Status, ExitCode: result.ExitCode, TimedOut: result.TimedOut, Result: &result})
	if err := j.close(); err != nil {
		o.Log.ErrorContext(ctx, "making the journal last", "error", err)
	}
	state.Ended = true
	if err := state.write(lock); err != nil {
		o.Log.ErrorContext(ctx, "failed to write that the journal is complete", "error", err)
	}
	if o.Linger {
		<-control.acknowledged
	}
	patience, cancel := context.WithTimeout(ctx, drainCopy)
	defer cancel()
	copyTo.close(patience.Done())
	return ExitDone
}

func (o Options) lock() (*os.File, error) {
	if o.LockFD > 0 {
		return inheritedLock(o.LockFD), nil
	}
	return Lock(o.Dir)
}

// takeOrder waits for the order, and returns how to tell who gave it whether
// the task has begun.
func (o Options) takeOrder(ctx context.Context) (_ run.ShimOrder, begun func(error), err error) {
	if o.Order != nil {
		order, err := ReadOrder(o.Order)
		return order, func(error) {}, err
	}
	r, err := newReceiver(ctx, o.Dir)
	if err != nil {
		return run.ShimOrder{}, nil, err
	}
	order, err := r.receive()
	return order, r.answer, err
}

// complete adds to an order what the environment gave to the shim itself.
func (o Options) complete(order *run.ShimOrder) {
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
