package gateway

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// ListExecutors implements ServerInterface.
func (s *Server) ListExecutors(c echo.Context) error {
	executors, err := s.runs.Executors(c.Request().Context())
	if err != nil {
		return err
	}
	v := api.ExecutorList{Executors: make([]api.Executor, len(executors))}
	for i, e := range executors {
		v.Executors[i] = viewExecutor(e)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// GetExecutor implements ServerInterface.
func (s *Server) GetExecutor(c echo.Context, id string) error {
	executors, err := s.runs.Executors(c.Request().Context())
	if err != nil {
		return err
	}
	for _, e := range executors {
		if e.ID == id {
			return writeJSON(c, http.StatusOK, mediaJSON, viewExecutor(e))
		}
	}
	return run.Errorf(run.CodeNotFound, "there is no executor %q", id)
}

// ListPools implements ServerInterface.
func (s *Server) ListPools(c echo.Context) error {
	pools, err := s.runs.Pools(c.Request().Context())
	if err != nil {
		return err
	}
	v := api.PoolList{Pools: make([]api.Pool, len(pools))}
	for i, p := range pools {
		v.Pools[i] = viewPool(p)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// GetPool implements ServerInterface.
func (s *Server) GetPool(c echo.Context, name string) error {
	pools, err := s.runs.Pools(c.Request().Context())
	if err != nil {
		return err
	}
	for _, p := range pools {
		if p.Name == name {
			return writeJSON(c, http.StatusOK, mediaJSON, viewPool(p))
		}
	}
	return run.Errorf(run.CodeNotFound, "there is no pool %q", name)
}

func viewExecutor(e run.Executor) api.Executor {
	return api.Executor{
		ID: e.ID, Pool: e.Pool, Driver: e.Driver, OS: e.OS, Arch: e.Arch, Labels: mapOf(e.Labels), Privileged: e.Privileged,
		Slots: e.Slots, SlotsUsed: e.SlotsUsed, Version: e.Version, State: api.ExecutorState(e.State),
		RegisteredAt: e.RegisteredAt.UTC(), LastContact: e.LastContact.UTC(),
	}
}

func viewPool(p run.Pool) api.Pool {
	return api.Pool{
		Name: p.Name, Driver: p.Driver, OS: p.OS, Arch: p.Arch, Labels: mapOf(p.Labels), Privileged: p.Privileged,
		Default: p.Default, Online: p.Online, Slots: p.Slots, SlotsUsed: p.SlotsUsed, Queued: p.Queued, Running: p.Running,
	}
}
