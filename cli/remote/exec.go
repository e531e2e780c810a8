package remote

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/execstream/socket"
	"github.com/drover-run/drover/run"
)

// Exec opens the connection of a session in a task. The caller sends the command as
// the first message, and closes the connection.
func (c *Client) Exec(ctx context.Context, id, task string) (*socket.Conn, error) {
	request, err := api.NewExecInTaskRequest(c.api.Server, id, task)
	if err != nil {
		return nil, err
	}
	if err := c.identify(ctx, request); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	client := &http.Client{Transport: c.opts.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	conn, response, err := socket.Dial(limited, client, request.URL.String(), request.Header) //nolint:bodyclose // Dial returns at most a copy in memory
	switch {
	case err == nil:
		return conn, nil
	case response == nil:
		return nil, c.unreachable(limited, err)
	}
	body, readErr := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if readErr != nil || response.StatusCode < http.StatusMultipleChoices {
		return nil, c.unreachable(limited, err)
	}
	refusal := c.statusError(response, body)
	var told *run.Error
	if response.StatusCode == http.StatusNotFound && errors.As(refusal, &told) && (told.Code != run.CodeNotFound || told.Message == unknownPath) {
		return nil, run.Errorf(run.CodeNotSupported, "%s has no sessions in tasks: it is of an earlier version, or a proxy before it does not pass WebSockets", c.opts.Server)
	}
	return nil, refusal
}

// unknownPath is what gateways of all versions say of a path that they do not have. The
// refusals of those that have it name what is missing, such as the run.
const unknownPath = "there is no such path"

// ExecError returns the error of a session that ended before its command.
func ExecError(status execstream.ExitStatus) error {
	if status.Problem != "" { // the gateway refused it
		return run.Errorf(run.Code(status.Problem), "%s", status.Error)
	}
	return run.Errorf(run.CodeCanceled, "the session ended: %s", status.Error)
}
