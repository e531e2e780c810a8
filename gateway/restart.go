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
	r, err := readRestart(c, s, id)
	if err != nil {
		return err
	}
	if err := checkIdempotencyKey(c, params.IdempotencyKey); err != nil {
		return err
	}
	r.IdempotencyKey = params.IdempotencyKey
	return s.writeCreated(c, func(ctx context.Context) (run.Run, error) {
		created, err := s.runs.Restart(ctx, r.RestartRequest)
		return created, r.locate(err)
	})
}

// PlanRestart implements ServerInterface.
func (s *Server) PlanRestart(c echo.Context, id api.RunID) error {
	r, err := readRestart(c, s, id)
	if err != nil {
		return err
	}
	tasks, err := s.runs.PlanRestart(c.Request().Context(), r.RestartRequest)
	if err != nil {
		return r.locate(err)
	}
	plan := api.RestartPlan{Tasks: make([]api.RestartTask, len(tasks))}
	for i, t := range tasks {
		plan.Tasks[i] = api.RestartTask{Name: t.Name, Kept: t.Kept, Reason: api.RestartReason(t.Reason), Detail: t.Detail}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, plan)
}

// readRestart reads a request for a restart, after checking that the caller may submit the run.
func readRestart(c echo.Context, s *Server, id api.RunID) (restartRequest, error) {
	var body api.Restart
	if err := s.decode(c, &body, strict); err != nil {
		return restartRequest{}, err
	}
	token, err := readToken(c, body.ChangegroupToken, roles.Submit)
	if err != nil {
		return restartRequest{}, err
	}
	r := restartRequest{text: body.Spec, RestartRequest: run.RestartRequest{
		Run: run.ID(id), From: run.RestartFrom(body.From), Tasks: body.Tasks, Environment: body.Environment, InputValues: body.InputValues,
		Subject: subject(c), Token: token,
	}}
	if len(body.Secrets) > 0 {
		r.Secrets = make(map[string]run.Secret, len(body.Secrets))
		for name, value := range body.Secrets {
			r.Secrets[name] = run.Secret(value)
		}
	}
	if r.text == "" {
		return r, allowRestart(c, s.runs, r.Run)
	}
	// The service validates it, after it has replaced the hidden secrets.
	if r.Spec, err = spec.Read([]byte(r.text), spec.FormatYAML); err != nil {
		return restartRequest{}, err
	}
	return r, access.AllowSpec(principal(c), r.Spec)
}

// restartRequest is a request for a restart.
type restartRequest struct {
	run.RestartRequest
	text string // of Spec; "" if there is none
}

// locate adds lines to the faults of the specification.
func (r restartRequest) locate(err error) error {
	if err == nil || r.text == "" {
		return err
	}
	return putBody[run.Spec]{data: []byte(r.text), format: spec.FormatYAML}.locateFaults(err, spec.Locate)
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
