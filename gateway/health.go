package gateway

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/version"
)

// GetHealth implements ServerInterface. It depends on no other component, so that
// an unavailable store never causes a restart of the process.
func (s *Server) GetHealth(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// GetReady implements ServerInterface.
func (s *Server) GetReady(c echo.Context) error {
	if err := s.ready(c.Request().Context()); err != nil {
		return err
	}
	return c.String(http.StatusOK, "ok\n")
}

// GetLinks implements ServerInterface.
func (s *Server) GetLinks(c echo.Context) error {
	return writeJSON(c, http.StatusOK, mediaJSON, api.Links{TemporalRun: s.opts.TemporalRun})
}

// GetVersion implements ServerInterface.
func (s *Server) GetVersion(c echo.Context) error {
	return c.JSON(http.StatusOK, api.Version{Version: version.String()})
}

// GetOpenAPI implements ServerInterface.
func (s *Server) GetOpenAPI(c echo.Context) error {
	return c.Blob(http.StatusOK, mediaYAML, api.Document())
}

// GetRunSchema implements ServerInterface.
func (s *Server) GetRunSchema(c echo.Context) error {
	return c.Blob(http.StatusOK, mediaSchema, api.RunSchema())
}
