package execution

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// TokenClient is the part of a Temporal client that Tokens uses.
type TokenClient interface {
	RecordActivityHeartbeat(ctx context.Context, taskToken []byte, details ...any) error
	CompleteActivity(ctx context.Context, taskToken []byte, result any, err error) error
}

// Tokens heartbeats and completes tasks by their Temporal task tokens.
type Tokens struct {
	client TokenClient
}

var _ agent.Tokens = (*Tokens)(nil)

// NewTokens returns Tokens over a client.
func NewTokens(client TokenClient) *Tokens { return &Tokens{client: client} }

// Heartbeat implements executor.Tokens.
func (t *Tokens) Heartbeat(ctx context.Context, token []byte, details agent.HeartbeatDetails) error {
	err := t.client.RecordActivityHeartbeat(ctx, token, heartbeatOf(details))
	var canceled *temporal.CanceledError
	switch {
	case errors.As(err, &canceled):
		return agent.ErrStopRequested
	case errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
		return nil // a pause or reset is no stop
	}
	return tokenError(err)
}

// Complete implements executor.Tokens.
func (t *Tokens) Complete(ctx context.Context, token []byte, out agent.Outcome) error {
	result, err := resultOf(out)
	if err != nil {
		return tokenError(t.client.CompleteActivity(ctx, token, nil, err))
	}
	return tokenError(t.client.CompleteActivity(ctx, token, result, nil))
}

// tokenError maps an error of the service to a code. Any error that is not an
// answer about the token counts as the service being unavailable.
func tokenError(err error) error {
	if err == nil {
		return nil
	}
	var notFound *serviceerror.NotFound
	var invalid *serviceerror.InvalidArgument
	switch {
	case errors.As(err, &notFound):
		return run.Errorf(run.CodeNotFound, "unknown task token: %w", err)
	case errors.As(err, &invalid):
		return run.Errorf(run.CodeInvalid, "the call was refused: %w", err)
	}
	return run.Errorf(run.CodeUnavailable, "Temporal is unavailable: %w", err)
}
