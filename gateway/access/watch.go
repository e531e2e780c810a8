package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

const (
	// recheckTimeout bounds one check of a caller.
	recheckTimeout = 15 * time.Second
	// maxUnchecked is how long a call continues while its caller cannot be checked, because
	// the records or the identity provider do not answer.
	maxUnchecked = time.Minute
)

// LostError is the cause of the end of a call whose caller lost the right to it.
type LostError struct {
	// Reason is the error with which the call would be refused now.
	Reason error
}

// Error implements error.
func (l *LostError) Error() string { return l.Reason.Error() }

// Unwrap returns the reason.
func (l *LostError) Unwrap() error { return l.Reason }

// Lost reports whether a context of Watch ended because its caller lost the right to the
// call.
func Lost(ctx context.Context) bool {
	_, lost := errors.AsType[*LostError](context.Cause(ctx))
	return lost
}

// Watcher checks the callers of calls that last.
type Watcher struct {
	// Every is the time between two checks of a call.
	Every time.Duration
	// Authenticate returns the principal of a request that was accepted before. It is no
	// other use of a session.
	Authenticate func(r *http.Request) (tokens.Principal, error)
	// Reauthenticate is like Authenticate, and uses no session that was read before.
	Reauthenticate func(r *http.Request) (tokens.Principal, error)
	Roles          *Roles
	// Rights are what Authenticate decides by.
	Rights []Refresher
	// Problem returns the document of an error.
	Problem func(err error, method string) api.Problem
}

// Refresher reads what other gateways changed of the rights of callers. Errors: unavailable.
type Refresher interface {
	Refresh(ctx context.Context) error
}

// Reaffirm checks the caller of a call again, by what the records have now. Calls that give
// or take rights need it right before they change anything: a caller who has lost the right
// at another gateway, or while the body of the call arrived or its record was written, could
// otherwise take it back.
// Errors: those of the check; unavailable.
func (w *Watcher) Reaffirm(c echo.Context) error {
	began, ok := c.Get(admittedKey).(admitted)
	if w == nil || !ok {
		return nil
	}
	ctx := c.Request().Context()
	for _, r := range w.Rights {
		if err := r.Refresh(ctx); err != nil {
			return err
		}
	}
	now, err := w.Reauthenticate(c.Request())
	if err != nil {
		return err
	}
	return w.Roles.Check(ctx, began.call, now)
}

// Watch returns a context for a call that lasts: it ends with ctx, and when the caller
// loses the right to the call. The handler must call stop. Without a Watcher, it ends with
// ctx only.
func (w *Watcher) Watch(ctx context.Context, c echo.Context) (watched context.Context, stop func()) {
	began, ok := c.Get(admittedKey).(admitted)
	if w == nil || !ok {
		return ctx, func() {}
	}
	r := c.Request() // c serves another request after this one
	watched, cancel := Watch(ctx, w.Every, func(ctx context.Context) error {
		now, err := w.Authenticate(r.WithContext(ctx))
		if err != nil {
			return err
		}
		return w.Roles.Recheck(ctx, began.call, began.caller, now)
	})
	return watched, func() {
		if Lost(watched) {
			SetProblem(c, w.Problem(context.Cause(watched), r.Method)) // for the access log
		}
		cancel()
	}
}

// Watch checks the caller of a call that lasts, such as a stream of events, again and
// again. It returns a context that ends with parent, and with a LostError as its cause when
// check refuses the caller. The caller must call stop.
func Watch(parent context.Context, every time.Duration, check func(context.Context) error) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		if reason := awaitRefusal(ctx, every, check); reason != nil {
			cancel(&LostError{Reason: reason})
		}
	}()
	return ctx, func() { cancel(nil) }
}

// awaitRefusal returns the error with which a caller is refused, or nil if ctx ends before.
func awaitRefusal(ctx context.Context, every time.Duration, check func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	checked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := checkOnce(ctx, check)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			checked = time.Now()
		case refuses(err) || time.Since(checked) > maxUnchecked:
			return err
		}
	}
}

func checkOnce(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recheckTimeout, fmt.Errorf("the caller was not checked within %s", recheckTimeout))
	defer cancel()
	return check(ctx)
}

// refuses reports whether an error says that the caller may not continue, and not that
// this is unknown.
func refuses(err error) bool {
	switch run.CodeOf(err) { //nolint:exhaustive // the other errors say nothing of the caller
	case run.CodeUnauthenticated, run.CodeTokenExpired, run.CodeTokenRevoked, run.CodeForbidden, run.CodeNotFound:
		return true
	}
	_, lost := errors.AsType[*LostError](err)
	return lost
}
