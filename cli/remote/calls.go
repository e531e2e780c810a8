package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/retry"
)

// Create submits a run, with an idempotency key if it is not "". It does not
// retry: without an answer, it is unknown whether the call had its effect.
func (c *Client) Create(ctx context.Context, body []byte, contentType, idempotencyKey string) (Answer[api.Run], error) {
	return call[api.Run](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.CreateRunWithBody(ctx, &api.CreateRunParams{IdempotencyKey: idempotencyKey}, contentType, bytes.NewReader(body))
	})
}

// Restart creates a new run from a final one. It does not retry.
func (c *Client) Restart(ctx context.Context, id string, body api.Restart, idempotencyKey string) (Answer[api.Run], error) {
	return call[api.Run](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.RestartRun(ctx, id, &api.RestartRunParams{IdempotencyKey: idempotencyKey}, body)
	})
}

// PlanRestart returns what becomes of each task in a restart.
func (c *Client) PlanRestart(ctx context.Context, id string, body api.Restart) (Answer[api.RestartPlan], error) {
	return call[api.RestartPlan](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PlanRestart(ctx, id, body)
	})
}

// Delete deletes a final run permanently.
func (c *Client) Delete(ctx context.Context, id string) error {
	_, err := call[struct{}](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeleteRun(ctx, id, api.DeleteRunJSONRequestBody{})
	})
	return err
}

// DeleteMany deletes final runs by age and number.
func (c *Client) DeleteMany(ctx context.Context, params *api.DeleteRunsParams) (Answer[api.Deleted], error) {
	return call[api.Deleted](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeleteRuns(ctx, params, api.DeleteRunsJSONRequestBody{})
	})
}

// ChangeGroups returns change groups.
func (c *Client) ChangeGroups(ctx context.Context, params *api.ListChangeGroupsParams) (Answer[api.ChangeGroupPage], error) {
	return call[api.ChangeGroupPage](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListChangeGroups(ctx, params)
	})
}

// ChangeGroup returns a change group.
func (c *Client) ChangeGroup(ctx context.Context, name string) (Answer[api.ChangeGroup], error) {
	return call[api.ChangeGroup](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetChangeGroup(ctx, name)
	})
}

// PutChangeGroup sets the limit and the policy of a change group.
func (c *Client) PutChangeGroup(ctx context.Context, name string, spec api.ChangeGroupSpec) (Answer[api.ChangeGroup], error) {
	return call[api.ChangeGroup](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PutChangeGroup(ctx, name, spec)
	})
}

// Groups counts the runs of groups.
func (c *Client) Groups(ctx context.Context, params *api.ListGroupsParams) (Answer[api.GroupPage], error) {
	return call[api.GroupPage](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListGroups(ctx, params)
	})
}

// Run returns a run with its tasks, and an update token of the named change
// groups.
func (c *Client) Run(ctx context.Context, id string, tokenFor ...string) (Answer[api.Run], error) {
	return call[api.Run](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetRun(ctx, id, &api.GetRunParams{TokenFor: tokenFor})
	})
}

// AwaitRun is like Run, but retries while the gateway is unavailable.
func (c *Client) AwaitRun(ctx context.Context, id string) (Answer[api.Run], error) {
	p := c.newRetryBudget()
	for {
		answer, err := c.Run(ctx, id)
		if err == nil || !temporary(err) || !p.wait(ctx) {
			return answer, err
		}
	}
}

// Runs returns one page of runs.
func (c *Client) Runs(ctx context.Context, params *api.ListRunsParams) (Answer[api.RunPage], error) {
	return call[api.RunPage](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListRuns(ctx, params)
	})
}

// Start starts a queued run.
func (c *Client) Start(ctx context.Context, id, token string) (Answer[api.Run], error) {
	return call[api.Run](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.StartRun(ctx, id, api.RunAction{ChangegroupToken: token})
	})
}

// Stop stops a running run, or ends a queued one too, as the body says.
func (c *Client) Stop(ctx context.Context, id string, body api.RunStop) (Answer[api.Run], error) {
	return call[api.Run](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.StopRun(ctx, id, body)
	})
}

// Cancel cancels a queued run.
func (c *Client) Cancel(ctx context.Context, id, token string) (Answer[api.Run], error) {
	return call[api.Run](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.CancelRun(ctx, id, api.RunAction{ChangegroupToken: token})
	})
}

// Approve approves a task that waits for approval.
func (c *Client) Approve(ctx context.Context, id, task string, body api.TaskApprove) (Answer[api.Run], error) {
	return call[api.Run](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ApproveTask(ctx, id, task, body)
	})
}

// Reject rejects a task that waits for approval.
func (c *Client) Reject(ctx context.Context, id, task string, body api.Rejection) (Answer[api.Run], error) {
	return call[api.Run](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.RejectTask(ctx, id, task, body)
	})
}

// Approvals returns a page of the tasks that wait for approval.
func (c *Client) Approvals(ctx context.Context, params *api.ListApprovalsParams) (Answer[api.ApprovalPage], error) {
	return call[api.ApprovalPage](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListApprovals(ctx, params)
	})
}

// Tokens returns the bearer tokens of the gateway.
func (c *Client) Tokens(ctx context.Context) (Answer[api.BearerTokenList], error) {
	return call[api.BearerTokenList](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListTokens(ctx)
	})
}

// CreateToken creates a bearer token.
func (c *Client) CreateToken(ctx context.Context, t api.TokenSpec) (Answer[api.NewToken], error) {
	return call[api.NewToken](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.CreateToken(ctx, t)
	})
}

// RevokeToken revokes a bearer token.
func (c *Client) RevokeToken(ctx context.Context, name string) (Answer[api.BearerToken], error) {
	return call[api.BearerToken](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.RevokeToken(ctx, name, api.RevokeTokenJSONRequestBody{})
	})
}

// RunSpec returns the specification of a run.
func (c *Client) RunSpec(ctx context.Context, id string) (Answer[json.RawMessage], error) {
	return call[json.RawMessage](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetRunSpec(ctx, id)
	})
}

// Annotate replaces the annotations of a run, or of a task if task is not "".
func (c *Client) Annotate(ctx context.Context, id, task, token string, annotations map[string]string) (Answer[api.Run], error) {
	return call[api.Run](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		if task == "" {
			return c.api.PutRunAnnotations(ctx, id, &api.PutRunAnnotationsParams{ChangegroupToken: token}, annotations)
		}
		return c.api.PutTaskAnnotations(ctx, id, task, &api.PutTaskAnnotationsParams{ChangegroupToken: token}, annotations)
	})
}

// The pauses between the attempts of a call, unless Options.Pause says otherwise.
const (
	retryFirst = 100 * time.Millisecond
	retryLimit = 2 * time.Second
)

// retryBudget bounds how long a request is retried.
type retryBudget struct {
	limit time.Duration
	since time.Time // of the last progress
	pause *backoff.ExponentialBackOff
}

func (c *Client) newRetryBudget() *retryBudget {
	const longest = 20 // in multiples of the first pause
	p := &retryBudget{limit: c.opts.RetryTimeout, pause: retry.Doubling(c.opts.Pause, min(retryLimit, longest*c.opts.Pause))}
	p.progress()
	return p
}

// progress records an answer of the gateway.
func (p *retryBudget) progress() {
	p.since = time.Now()
	p.pause.Reset()
}

// wait pauses, and reports whether another attempt is allowed.
func (p *retryBudget) wait(ctx context.Context) bool {
	left := p.limit - time.Since(p.since)
	return left > 0 && retry.Sleep(ctx, min(p.pause.NextBackOff(), left)) == nil
}
