package gateway

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/access"
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
	e, err := s.runs.Executor(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, mediaJSON, viewExecutor(e))
}

// maxReason bounds the reason that a client gives, in bytes.
const maxReason = 500

func checkReason(reason string) error {
	if len(reason) > maxReason || strings.ContainsFunc(reason, unicode.IsControl) {
		return run.Errorf(run.CodeInvalid, "reason: at most %d bytes of text in one line", maxReason)
	}
	return nil
}

// RemoveExecutor implements ServerInterface.
func (s *Server) RemoveExecutor(c echo.Context, id string, params api.RemoveExecutorParams) error {
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	if err := checkReason(params.Reason); err != nil {
		return err
	}
	e, err := s.runs.RemoveExecutor(c.Request().Context(), id, run.Removal{Reason: params.Reason, Force: params.Force})
	if err != nil {
		return err
	}
	s.logger.InfoContext(c.Request().Context(), "executor removed", "executor", id, "by", subject(c), "tasks", e.Tasks, "reason", e.Reason)
	return writeJSON(c, http.StatusOK, mediaJSON, viewExecutor(e))
}

// DrainExecutor implements ServerInterface.
func (s *Server) DrainExecutor(c echo.Context, id string) error {
	var body api.Drain
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	if err := checkReason(body.Reason); err != nil {
		return err
	}
	var e run.Executor
	var err error
	if body.Resume {
		e, err = s.runs.ResumeExecutor(c.Request().Context(), id)
	} else {
		e, err = s.runs.DrainExecutor(c.Request().Context(), id, body.Reason)
	}
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, mediaJSON, viewExecutor(e))
}

// ListPools implements ServerInterface.
func (s *Server) ListPools(c echo.Context) error {
	pools, err := s.runs.Pools(c.Request().Context())
	if err != nil {
		return err
	}
	v := api.PoolList{Pools: make([]api.Pool, 0, len(pools))}
	for _, p := range pools {
		if access.SeesPool(principal(c), &p) {
			v.Pools = append(v.Pools, viewPool(p))
		}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// GetPool implements ServerInterface.
func (s *Server) GetPool(c echo.Context, name string) error {
	p, err := s.runs.Pool(c.Request().Context(), name)
	if err != nil {
		return err
	}
	if !access.SeesPool(principal(c), &p) {
		return run.Errorf(run.CodeNotFound, "there is no pool %s", name)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, viewPool(p))
}

// PutPool implements ServerInterface.
func (s *Server) PutPool(c echo.Context, name string) error {
	var body api.PoolSpec
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	p := run.Pool{
		Name: name, Driver: body.Driver, OS: body.OS, Arch: body.Arch, Labels: body.Labels, Privileged: body.Privileged, Shared: body.Shared,
		Default: body.Default, Exec: run.ExecPolicy(body.Exec), Flavor: body.Flavor, Kubernetes: body.Kubernetes,
		MaxRunning: body.MaxRunning, AllowedGroups: body.AllowedGroups, AllowedVolumes: body.AllowedVolumes,
		AllowedHostPaths: body.AllowedHostPaths, AllowedDevices: body.AllowedDevices,
		Images: run.PoolImages{
			Default: body.Image, Allowed: body.AllowedImages, AllowedServices: body.AllowedServiceImages, PullPolicies: body.AllowedPullPolicies,
			Rewrites: body.ImageRewrites, Registries: body.Registries,
		},
	}
	p, created, err := s.runs.PutPool(c.Request().Context(), p)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set("Location", s.base.Join("/api/v1/pools/"+url.PathEscape(name)))
	}
	return writeJSON(c, status, mediaJSON, viewPool(p))
}

// DeletePool implements ServerInterface.
func (s *Server) DeletePool(c echo.Context, name string) error {
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	if err := s.runs.DeletePool(c.Request().Context(), name); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func viewExecutor(e run.Executor) api.Executor {
	v := api.Executor{
		ID: e.ID, Pool: e.Pool, Driver: e.Driver, OS: e.OS, Arch: e.Arch, Labels: mapOf(run.WithoutResources(e.Labels)), Privileged: e.Privileged,
		Slots: e.Slots, SlotsUsed: e.SlotsUsed, Version: e.Version, Features: e.Features, Set: e.Set, Temporary: e.Temporary,
		State: api.ExecutorState(e.State), Reason: e.Reason, Drained: e.Drained, Tasks: e.Tasks,
		RegisteredAt: e.RegisteredAt.UTC(), LastContact: e.LastContact.UTC(), RemovedAt: e.RemovedAt.UTC(),
	}
	if r := run.ResourcesOf(e.Labels); r != (run.Resources{}) {
		v.Resources = &api.OfferedResources{CPU: r.CPU, Memory: r.Memory, GPUs: r.GPUs}
	}
	if e.Temporary {
		v.RemoveAfter = cmp.Or(e.RemoveAfter, run.TemporaryOffline).String()
	}
	for _, h := range e.Held {
		v.Held = append(v.Held, api.HeldTask{
			Run: string(h.Key.Run), Task: h.Name, Number: h.Key.Task, Attempt: h.Key.Attempt, Reason: h.Reason, StartedAt: h.StartedAt.UTC(),
		})
	}
	return v
}

func viewPool(p run.Pool) api.Pool {
	v := api.Pool{
		Name: p.Name, Driver: p.Driver, OS: p.OS, Arch: p.Arch, Labels: mapOf(p.Labels), Privileged: p.Privileged, Shared: p.Shared,
		Default: p.Default, Exec: api.PoolExec(p.Exec), Flavor: p.Flavor, Kubernetes: p.Kubernetes, Online: p.Online, Draining: p.Draining, Offline: p.Offline,
		Slots: p.Slots, SlotsUsed: p.SlotsUsed, Queued: p.Queued, Running: p.Running, MaxRunning: p.MaxRunning,
		AllowedGroups: p.AllowedGroups, AllowedVolumes: p.AllowedVolumes, AllowedHostPaths: p.AllowedHostPaths, AllowedDevices: p.AllowedDevices, Features: p.Features,
		Image: p.Images.Default, AllowedImages: p.Images.Allowed, AllowedServiceImages: p.Images.AllowedServices, AllowedPullPolicies: p.Images.PullPolicies,
		ImageRewrites: p.Images.Rewrites, Registries: p.Images.Registries,
	}
	for _, f := range p.FleetGroups {
		v.FleetGroups = append(v.FleetGroups, api.FleetGroups{Fleet: f.Fleet, AllowedGroups: f.AllowedGroups})
	}
	return v
}
