package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/execstream/socket"
	"github.com/drover-run/drover/run"
)

// awaitTimeout is the timeout of waiting for sessions, longer than the gateway waits.
const awaitTimeout = 40 * time.Second

// AwaitSessions implements sessions.API. The gateway answers within about 25 s.
func (c *Client) AwaitSessions(ctx context.Context, executor, set string) ([]execstream.Offer, error) {
	var answer api.SessionOffers
	body := api.SessionQuery{Executor: executor, Set: set}
	waiting := &Client{api: c.api, timeout: awaitTimeout, onToken: c.onToken}
	if err := waiting.call(ctx, "wait for sessions", c.api.AwaitSessionsWithBody, body, &answer); err != nil {
		return nil, err
	}
	offers := make([]execstream.Offer, len(answer.Sessions))
	for i, o := range answer.Sessions {
		offers[i] = execstream.Offer{ID: o.ID, Run: string(o.Key.Run), Task: o.Key.Task, Attempt: o.Key.Attempt, Dispatch: o.Key.Dispatch, Token: o.Token}
	}
	return offers, nil
}

// JoinSession implements sessions.API.
func (c *Client) JoinSession(ctx context.Context, executor, id, token string) (execstream.Conn, error) {
	const doing = "join a session"
	request, err := api.NewJoinSessionRequest(c.api.Server, id, &api.JoinSessionParams{Executor: executor, DroverSession: token})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	for _, edit := range c.api.RequestEditors {
		if err := edit(ctx, request); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	// Each try makes a connection of its own, which may reach another gateway.
	client := &http.Client{Transport: c.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	conn, response, err := socket.Dial(limited, client, request.URL.String(), request.Header) //nolint:bodyclose // Dial returns at most a copy in memory
	switch {
	case err == nil:
		return conn, nil
	case response == nil:
		return nil, fmt.Errorf("%s: %w", doing, transportError(ctx, limited, err))
	}
	if refused := answerError(response); refused != nil {
		return nil, fmt.Errorf("%s: %w", doing, refused)
	}
	return nil, run.Errorf(run.CodeInternal, "%s: %w", doing, err)
}
