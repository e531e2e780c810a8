package logscan

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drover-run/drover/run"
)

// A scan takes a CPU for seconds. Without bounds, a few clients would take all of them
// from the calls of executors. So scans take half of the CPUs, and one caller half of
// these: while all are busy, the process notices requests late.
const (
	maxScans = 4 // at a time
	turnWait = 10 * time.Second
)

var errBusy = errors.New("the gateway searches too many logs at the moment")

// Turns bounds how many logs are scanned at a time, in all and for each caller. It is
// safe for concurrent use.
type Turns struct {
	all       *semaphore.Weighted
	perCaller int64

	mu      sync.Mutex
	callers map[string]*callerTurns
}

type callerTurns struct {
	*semaphore.Weighted

	calls int // that scan or wait
}

// NewTurns returns Turns of which none is taken, for a process that may use a number of
// CPUs.
func NewTurns(cpus int) *Turns {
	all := min(max(cpus/2, 1), maxScans)
	return &Turns{all: semaphore.NewWeighted(int64(all)), perCaller: int64(max(all/2, 1)), callers: map[string]*callerTurns{}}
}

// Begin waits for a turn of the caller, which ends with a call of end. Errors:
// unavailable if the wait took too long, and canceled.
func (t *Turns) Begin(ctx context.Context, caller string) (end func(), err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, turnWait, errBusy)
	defer cancel()
	own := t.enter(caller)
	if err = own.Acquire(waiting, 1); err == nil {
		if err = t.all.Acquire(waiting, 1); err != nil {
			own.Release(1)
		}
	}
	switch {
	case err == nil:
		return sync.OnceFunc(func() {
			t.all.Release(1)
			own.Release(1)
			t.leave(caller)
		}), nil
	case ctx.Err() != nil:
		err = run.Errorf(run.CodeCanceled, "wait to scan a log: %w", context.Cause(ctx))
	default:
		err = run.Errorf(run.CodeUnavailable, "%w; try again", errBusy)
	}
	t.leave(caller)
	return nil, err
}

func (t *Turns) enter(caller string) *callerTurns {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.callers[caller]
	if own == nil {
		own = &callerTurns{Weighted: semaphore.NewWeighted(t.perCaller)}
		t.callers[caller] = own
	}
	own.calls++
	return own
}

func (t *Turns) leave(caller string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.callers[caller]
	if own.calls--; own.calls == 0 {
		delete(t.callers, caller)
	}
}
