package registration

import (
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/run"
)

// reportEvery is how often a failure is logged that lasts. Attempts are more frequent.
const reportEvery = time.Minute

// report is the failure that was logged last.
type report struct {
	reason string
	at     time.Time
}

// refusal is an answer of the gateway that stays the same until an operator changes
// something.
type refusal struct {
	err    error
	remedy string
}

func (e *refusal) Error() string { return e.err.Error() + ": " + e.remedy }

func (e *refusal) Unwrap() error { return e.err }

// explain returns the error of a call of the gateway, a refusal if it is one.
func explain(err error) error {
	code := run.CodeOf(err)
	if code == run.CodeUnauthenticated {
		return &refusal{err, "put a token with the scope executor, for this executor and its pool, into executor.token_file (drover tokens create --scopes executor)"}
	}
	if code == run.CodeInvalid {
		return &refusal{err, "choose another pool (executor.pool) or driver, or change the pool (drover pools set)"}
	}
	return err
}

// notRegistered records why the executor could not register.
func (r *Registration) notRegistered(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.healthErr != nil {
		r.healthErr = fmt.Errorf("the executor is not registered: %w", err)
	}
	r.log("failed to register executor", err)
}

// succeeded forgets the last failure: the next one is logged, even if it is the same.
func (r *Registration) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported = report{}
}

// log logs a failure if its reason is new, and otherwise once in reportEvery. A refusal
// is an error; all else ends by itself. The caller holds mu.
func (r *Registration) log(message string, err error) {
	reason := err.Error()
	if e, ok := errors.AsType[*run.Error](err); ok { // without the name of the call, which varies
		reason = e.Message
	}
	now := time.Now()
	if reason == r.reported.reason && now.Sub(r.reported.at) < reportEvery {
		return
	}
	r.reported = report{reason: reason, at: now}
	write := r.config.Log.Warn
	if refused(err) {
		write = r.config.Log.Error
	}
	write(message, "error", err)
}

func refused(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}
