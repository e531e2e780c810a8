// Package exec serves the sessions of clients in tasks, and the executors that join
// them, over WebSockets.
package exec

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/execstream/socket"
	"github.com/drover-run/drover/run"
)

// Sessions is the service behind the handlers.
type Sessions interface {
	// ServeSession runs a command in a task, from the message Start to the end of
	// the session, and closes the connection. It reports errors to the client, and returns
	// why the session did not begin.
	ServeSession(ctx context.Context, id run.ID, task, subject string, client execstream.Conn) error
	// AwaitSessions waits for sessions in the tasks of an executor, and returns
	// offers for them; none after some time. Errors: forbidden (it was removed).
	AwaitSessions(ctx context.Context, executor, set string) ([]execstream.Offer, error)
	// JoinSession uses an offer. Errors: unavailable (another gateway holds the
	// session, and the offer stays valid), conflict, forbidden (it was removed).
	JoinSession(ctx context.Context, executor, id, token string) (execstream.Conn, error)
}

// Server is what the handlers need of the gateway.
type Server struct {
	// Subject returns the name of the caller.
	Subject func(c echo.Context) string
	// Open returns a context that also ends when the gateway shuts down.
	Open func(ctx context.Context) (_ context.Context, closeStream func())
	// Watch returns a context that also ends when the client loses the right to its call.
	Watch func(ctx context.Context, c echo.Context) (_ context.Context, stop func())
	// Decode reads the body of a call of an executor.
	Decode func(c echo.Context, v any) error
	// CheckExecutor refuses a call for an executor that the token is not bound to.
	CheckExecutor func(c echo.Context, executor, set string) error
	// Failed marks an error that says that the executor was removed.
	Failed func(c echo.Context, err error) error
	// Refused records the error of a call whose connection was upgraded already.
	Refused func(c echo.Context, err error)
	// Streamed marks a request whose duration is not measured.
	Streamed func(c echo.Context)
}

// Operations implements the operations of the contract. Sessions may be nil.
type Operations struct {
	Sessions Sessions
	Server   Server
}

func (h *Operations) service() (Sessions, error) {
	if h.Sessions == nil {
		return nil, run.Errorf(run.CodeNotSupported, "this gateway serves no sessions in tasks")
	}
	return h.Sessions, nil
}

// ExecInTask implements gateway.ServerInterface.
func (h *Operations) ExecInTask(c echo.Context, id, task string) error {
	sessions, err := h.service()
	if err != nil {
		return err
	}
	conn, err := h.accept(c)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	ctx, closeStream := h.Server.Open(c.Request().Context())
	defer closeStream()
	ctx, stop := h.Server.Watch(ctx, c)
	defer stop()
	go conn.KeepAlive(ctx)
	if err := sessions.ServeSession(ctx, run.ID(id), task, h.Server.Subject(c), conn); err != nil {
		h.Server.Refused(c, err)
	}
	return nil
}

// AwaitSessions implements gateway.ServerInterface.
func (h *Operations) AwaitSessions(c echo.Context) error {
	sessions, err := h.service()
	if err != nil {
		return err
	}
	var body api.SessionQuery
	if err := h.Server.Decode(c, &body); err != nil {
		return err
	}
	if body.Executor == "" || len(body.Executor) > run.MaxExpandedName || len(body.Set) > run.MaxExpandedName {
		return run.Errorf(run.CodeInvalid, "the executor is missing, or its name is too long")
	}
	if err := h.Server.CheckExecutor(c, body.Executor, body.Set); err != nil {
		return err
	}
	h.Server.Streamed(c)
	ctx, closeStream := h.Server.Open(c.Request().Context())
	defer closeStream()
	offers, err := sessions.AwaitSessions(ctx, body.Executor, body.Set)
	if err != nil {
		return h.Server.Failed(c, err)
	}
	answer := api.SessionOffers{Sessions: make([]api.SessionOffer, len(offers))}
	for i, o := range offers {
		answer.Sessions[i] = api.SessionOffer{ID: o.ID, Token: o.Token, Key: run.Key{Run: run.ID(o.Run), Task: o.Task, Attempt: o.Attempt, Dispatch: o.Dispatch}}
	}
	return c.JSON(http.StatusOK, answer)
}

// JoinSession implements gateway.ServerInterface.
func (h *Operations) JoinSession(c echo.Context, session string, params api.JoinSessionParams) error {
	sessions, err := h.service()
	if err != nil {
		return err
	}
	if err := h.Server.CheckExecutor(c, params.Executor, ""); err != nil {
		return err
	}
	if !upgrades(c) {
		return errNoUpgrade()
	}
	theirs, err := sessions.JoinSession(c.Request().Context(), params.Executor, session, params.DroverSession)
	if err != nil {
		return h.Server.Failed(c, err)
	}
	defer theirs.Close()
	conn, err := h.accept(c)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	ctx, closeStream := h.Server.Open(c.Request().Context())
	defer closeStream()
	go conn.KeepAlive(ctx)
	// The end is recorded by the gateway's end of the session.
	_, _ = execstream.Copy(ctx, theirs, conn, execstream.Callbacks{})
	return nil
}

func upgrades(c echo.Context) bool { return c.IsWebSocket() }

func errNoUpgrade() error {
	return run.Errorf(run.CodeInvalid, "the call needs the upgrade of the connection to a WebSocket, with the subprotocol %s", socket.Protocol)
}

// accept upgrades a connection. The connection is nil if the request was answered
// otherwise.
func (h *Operations) accept(c echo.Context) (*socket.Conn, error) {
	if !upgrades(c) {
		return nil, errNoUpgrade()
	}
	h.Server.Streamed(c)
	// The timeouts of the server end with the request, not with the session.
	control := http.NewResponseController(c.Response())
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	conn, err := socket.Accept(c.Response(), c.Request())
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // Accept has answered
	}
	return conn, nil
}
