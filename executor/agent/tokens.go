package agent

import (
	"context"
	"errors"

	"github.com/drover-run/drover/run"
)

// ErrStopRequested is returned by a heartbeat of a task that is to be stopped.
var ErrStopRequested = errors.New("stop requested")

// Tokens is the service that delivers tasks, as an agent uses it. A token
// identifies one delivery of one task. Implementations are safe for concurrent use.
// Errors: CodeNotFound if the token is not valid any more, ErrStopRequested (Heartbeat
// only), any other if the service is unreachable: the agent retries the call.
type Tokens interface {
	// Heartbeat reports that the executor holds the task of the token.
	Heartbeat(ctx context.Context, token []byte, details HeartbeatDetails) error
	// Complete reports the outcome. Nil means that it was accepted.
	Complete(ctx context.Context, token []byte, outcome Outcome) error
}

// HeartbeatDetails identify the executor that has a task.
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
	// ClaimProof proves to the gateway that the task was handed out; "" if the gateway
	// does not require a proof.
	ClaimProof string
	// Labels identify the labels of the queue that delivered the task (see run.LabelsID); ""
	// for the queue of the pool.
	Labels string
	// Attempt counts the deliveries, from 1.
	Attempt int
	// Last is the last heartbeat of an earlier delivery, nil for none.
	Last *HeartbeatDetails
}

// Adoption is an order to take over a task under a new token.
type Adoption struct {
	Key   run.Key
	Token []byte
	// JournalID is the journal that had the key, "" if it is unknown.
	JournalID string
}

// Outcome is the answer about a task. At most one field besides Executor and
// JournalID is set; none means that the answer is pending: the agent will pass it
// to Tokens.Complete.
type Outcome struct {
	// Executor is the executor that answers.
	Executor string
	// Ended: the task ended.
	Ended *run.TaskResult
	// NeverStarted says why no step of the key ran or will ever run.
	NeverStarted string
	// Requeued is why the task was not started and is to be requeued. It answers a
	// delivery, but not an adoption. Another executor may have the task nevertheless.
	Requeued string
	// JournalID is set, with NeverStarted and Requeued, if the journal of this
	// executor held the claim, or is closed to the key: then it guarantees that no
	// step of the key ran or will run.
	JournalID string
	// Claimed: another executor has the task. Its Executor is "" if that executor is
	// unknown.
	Claimed *HeartbeatDetails
}

// Pending reports whether the outcome will be reported later.
func (o Outcome) Pending() bool {
	return o.Ended == nil && o.NeverStarted == "" && o.Requeued == "" && o.Claimed == nil
}
