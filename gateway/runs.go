package gateway

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// CreateRun implements ServerInterface.
func (s *Server) CreateRun(c echo.Context) error {
	data, media, err := s.readBody(c)
	if err != nil {
		return err
	}
	parsed, err := readSpec(data, media)
	if err != nil {
		return err
	}
	r, err := s.runs.Create(c.Request().Context(), run.CreateRequest{Spec: parsed, Subject: subject(c)})
	if err != nil {
		return err
	}
	c.Response().Header().Set("Location", "/api/v1/runs/"+url.PathEscape(string(r.ID)))
	return renderRun(c, http.StatusCreated, r)
}

// GetRun implements ServerInterface.
func (s *Server) GetRun(c echo.Context, id api.RunID, params api.GetRunParams) error {
	r, err := s.runs.Get(c.Request().Context(), run.ID(id))
	if err != nil {
		return err
	}
	return renderIfChanged(c, params.IfNoneMatch, r)
}

// StartRun implements ServerInterface.
func (s *Server) StartRun(c echo.Context, id api.RunID) error { return s.act(c, id, s.runs.Start) }

// CancelRun implements ServerInterface.
func (s *Server) CancelRun(c echo.Context, id api.RunID) error { return s.act(c, id, s.runs.Cancel) }

// StopRun implements ServerInterface.
func (s *Server) StopRun(c echo.Context, id api.RunID) error { return s.act(c, id, s.runs.Stop) }

// ApproveTask implements ServerInterface.
func (s *Server) ApproveTask(c echo.Context, id api.RunID, task api.TaskName) error {
	return s.act(c, id, func(ctx context.Context, id run.ID, token run.Token) (run.Run, error) {
		return s.runs.Approve(ctx, id, task, subject(c), token)
	})
}

// act makes a call that has no arguments of its own and answers with the run.
func (s *Server) act(c echo.Context, id string, call func(context.Context, run.ID, run.Token) (run.Run, error)) error {
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	r, err := call(c.Request().Context(), run.ID(id), nil)
	if err != nil {
		return err
	}
	return renderRun(c, http.StatusOK, r)
}

// PutRunAnnotations implements ServerInterface.
func (s *Server) PutRunAnnotations(c echo.Context, id api.RunID) error { return s.annotate(c, id, "") }

// PutTaskAnnotations implements ServerInterface.
func (s *Server) PutTaskAnnotations(c echo.Context, id api.RunID, task api.TaskName) error {
	return s.annotate(c, id, task)
}

func (s *Server) annotate(c echo.Context, id, task string) error {
	var annotations map[string]string
	if err := s.decode(c, &annotations, strict); err != nil {
		return err
	}
	if annotations == nil {
		return run.Errorf(run.CodeInvalid, "the body must be an object of texts; {} removes all annotations")
	}
	r, err := s.runs.Annotate(c.Request().Context(), run.ID(id), task, annotations, nil)
	if err != nil {
		return err
	}
	return renderRun(c, http.StatusOK, r)
}
