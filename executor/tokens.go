package executor

import (
	"context"
	"errors"

	"github.com/drover-run/drover/run"
)

// ErrStopWanted is what a heartbeat returns for a task that shall be stopped.
var ErrStopWanted = errors.New("stop wanted")

// Tokens is what an agent needs of the service that hands out tasks: a token
// stands for one delivery of one task. Implementations are safe for concurrent
// use. Errors: CodeNotFound where the token is not known any more, ErrStopWanted
// (Heartbeat only), anything else where the service is out of reach: the call
// is repeated.
type Tokens interface {
	// Heartbeat says that the task of the token is in good hands.
	Heartbeat(ctx context.Context, token []byte, details HeartbeatDetails) error
	// Complete hands over the outcome. Nil means that it was accepted.
	Complete(ctx context.Context, token []byte, outcome Outcome) error
}

// HeartbeatDetails say who has a task.
type HeartbeatDetails struct {
	Executor  string
	Set       string // of the executor, "" for none: any of its members may answer
	JournalID string
	Key       run.Key
	Frame     int64 // the number of the last frame seen
}

// Delivery is a task as it was delivered.
type Delivery struct {
	Key   run.Key
	Token []byte
	// Ticket proves to the desk that the task was handed out; "" where nobody
	// asks for that.
	Ticket string
	// Attempt counts the deliveries, from 1.
	Attempt int
	// Last are the details of the last heartbeat of an earlier delivery, nil
	// if there are none.
	Last *HeartbeatDetails
}

// Adoption is an order to take a task over from an earlier token.
type Adoption struct {
	Key   run.Key
	Token []byte
	// JournalID is the journal that had the key, "" if that is not known.
	JournalID string
}

// Outcome is the answer about a task. At most one field beside Executor and
// JournalID is set; none means that the answer is pending: it will go to
// Tokens.Complete.
type Outcome struct {
	// Executor is who answers.
	Executor string
	// Ended: the task ended.
	Ended *run.TaskResult
	// NeverStarted says why no step of the key ran or will ever run.
	NeverStarted string
	// GivenBack says why the task was not started. It answers a delivery, and
	// no order to adopt. Another executor may have the task all the same.
	GivenBack string
	// JournalID is set, with NeverStarted and GivenBack, where the journal of
	// this executor held the claim, or is closed to the key: then it vouches that
	// no step of the key ran or will run.
	JournalID string
	// Claimed: another has the task. Its Executor is "" where it is not known who.
	Claimed *HeartbeatDetails
}

// Pending reports whether the answer is yet to come.
func (o Outcome) Pending() bool {
	return o.Ended == nil && o.NeverStarted == "" && o.GivenBack == "" && o.Claimed == nil
}
