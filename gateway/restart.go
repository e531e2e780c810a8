package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// RestartRun implements ServerInterface.
func (s *Server) RestartRun(c echo.Context, id api.RunID, params api.RestartRunParams) error {
	var body api.Restart
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	token, err := readToken(c, body.ChangegroupToken, roles.Submit)
	if err != nil {
		return err
	}
	if err := checkIdempotencyKey(c, params.IdempotencyKey); err != nil {
		return err
	}
	req := run.RestartRequest{
		Run: run.ID(id), From: run.RestartFrom(body.From), Tasks: body.Tasks, Environment: body.Environment, InputValues: body.InputValues,
		Subject: subject(c), Token: token, IdempotencyKey: params.IdempotencyKey,
	}
	if len(body.Secrets) > 0 {
		req.Secrets = make(map[string]run.Secret, len(body.Secrets))
		for name, value := range body.Secrets {
			req.Secrets[name] = run.Secret(value)
		}
	}
	if body.Spec == "" {
		if err := allowRestart(c, s.runs, req.Run); err != nil {
			return err
		}
		return s.writeCreated(c, func(ctx context.Context) (run.Run, error) { return s.runs.Restart(ctx, req) })
	}
	// The service validates it, after it has replaced the hidden secrets.
	if req.Spec, err = spec.Read([]byte(body.Spec), spec.FormatYAML); err != nil {
		return err
	}
	if err := access.AllowSpec(principal(c), req.Spec); err != nil {
		return err
	}
	text := putBody[run.Spec]{data: []byte(body.Spec), format: spec.FormatYAML}
	return s.writeCreated(c, func(ctx context.Context) (run.Run, error) {
		r, err := s.runs.Restart(ctx, req)
		if err != nil {
			return run.Run{}, text.locateFaults(err, spec.Locate)
		}
		return r, nil
	})
}

// allowRestart refuses a restart with the specification of the old run if the caller
// could not submit it.
func allowRestart(c echo.Context, runs run.Service, id run.ID) error {
	if !principal(c).Restricted() {
		return nil
	}
	old, err := runs.Spec(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return access.AllowSpec(principal(c), old)
}

// writeCreated makes a call that creates a run, and answers with the run.
func (s *Server) writeCreated(c echo.Context, call func(context.Context) (run.Run, error)) error {
	r, err := call(c.Request().Context())
	if err != nil {
		return err
	}
	c.Response().Header().Set("Location", s.base.Join("/api/v1/runs/"+url.PathEscape(string(r.ID))))
	if r.Replayed {
		c.Response().Header().Set("Idempotent-Replayed", "true")
	}
	return renderRun(c, http.StatusCreated, r)
}

// maxIdempotencyKey is the maximum length of a key in bytes.
const maxIdempotencyKey = 255

// checkIdempotencyKey refuses keys that are not printable ASCII. It also refuses
// an empty header: its client meant to send a key.
func checkIdempotencyKey(c echo.Context, key string) error {
	if len(c.Request().Header.Values("Idempotency-Key")) == 0 {
		return nil
	}
	bad := key == "" || len(key) > maxIdempotencyKey
	for i := range len(key) {
		bad = bad || key[i] < ' ' || key[i] > '~'
	}
	if bad {
		return run.Errorf(run.CodeUnreadable, "the Idempotency-Key must be one value of 1 to %d printable ASCII characters", maxIdempotencyKey)
	}
	return nil
}

// DeleteRun implements ServerInterface.
func (s *Server) DeleteRun(c echo.Context, id api.RunID) error {
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	if err := s.runs.Delete(c.Request().Context(), run.ID(id)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// DeleteRuns implements ServerInterface.
func (s *Server) DeleteRuns(c echo.Context, params api.DeleteRunsParams) error {
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	q := run.DeleteQuery{Group: params.Group, DryRun: params.DryRun}
	if params.CreatedBefore != nil {
		q.Before = *params.CreatedBefore
	}
	if params.Keep != nil {
		q.Keep = *params.Keep
	}
	if q.Group != "" {
		if faults := checkGroup("group", q.Group); len(faults) > 0 {
			return run.InvalidError(faults[0].Detail, faults)
		}
	}
	if err := access.Allow(principal(c), roles.Administer, strings.TrimRight(q.Group, "/")); err != nil {
		return err
	}
	if q.Before.IsZero() && q.Keep == 0 {
		return invalidParameter("created_before", "created_before or keep is required to select the runs to delete")
	}
	done, err := s.runs.DeleteRuns(c.Request().Context(), q)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, mediaJSON, api.Deleted{Runs: done.Runs, More: done.More})
}
