package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// errNoFleets is the error of gateways without run.Fleets.
func errNoFleets() error {
	return run.Errorf(run.CodeNotSupported, "this gateway does not serve fleets")
}

// ListFleets implements ServerInterface.
func (s *Server) ListFleets(c echo.Context) error {
	if s.fleets == nil {
		return errNoFleets()
	}
	ctx := c.Request().Context()
	all, err := s.fleets.Fleets(ctx)
	if err != nil {
		return err
	}
	all, err = access.SeesFleets(principal(c), all, func() ([]run.Pool, error) { return s.runs.Pools(ctx) })
	if err != nil {
		return err
	}
	v := api.FleetList{Fleets: make([]api.Fleet, len(all))}
	for i, f := range all {
		v.Fleets[i] = viewFleet(f)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// GetFleet implements ServerInterface.
func (s *Server) GetFleet(c echo.Context, name api.FleetName) error {
	if s.fleets == nil {
		return errNoFleets()
	}
	return renderFleet(c, http.StatusOK)(s.fleets.Fleet(c.Request().Context(), name))
}

func renderFleet(c echo.Context, status int) func(run.Fleet, error) error {
	return func(f run.Fleet, err error) error {
		if err != nil {
			return err
		}
		access.ShowFleet(principal(c), &f)
		return writeJSON(c, status, mediaJSON, viewFleet(f))
	}
}

// PutFleet implements ServerInterface.
func (s *Server) PutFleet(c echo.Context, name api.FleetName) error {
	if s.fleets == nil {
		return errNoFleets()
	}
	body, err := readPut(s, c, name, spec.ReadFleet, func(f *spec.Fleet) string { return f.Name })
	if err != nil {
		return err
	}
	f, created, err := s.fleets.PutFleet(c.Request().Context(), name, body.resource.FleetSpec, subject(c))
	err = body.locateFaults(err, spec.LocateFleet)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set("Location", s.base.Join("/api/v1/fleets/"+url.PathEscape(name)))
	}
	return renderFleet(c, status)(f, err)
}

// DeleteFleet implements ServerInterface.
func (s *Server) DeleteFleet(c echo.Context, name api.FleetName) error {
	if s.fleets == nil {
		return errNoFleets()
	}
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	return renderFleet(c, http.StatusAccepted)(s.fleets.DeleteFleet(c.Request().Context(), name, subject(c)))
}

// ListFleetInstances implements ServerInterface.
func (s *Server) ListFleetInstances(c echo.Context, name api.FleetName, params api.ListFleetInstancesParams) error {
	if s.fleets == nil {
		return errNoFleets()
	}
	all, err := s.fleets.FleetInstances(c.Request().Context(), name, params.Gone)
	if err != nil {
		return err
	}
	v := api.FleetInstanceList{Instances: make([]api.FleetInstance, len(all))}
	for i, x := range all {
		v.Instances[i] = viewInstance(x)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// ListFleetEvents implements ServerInterface.
func (s *Server) ListFleetEvents(c echo.Context, name api.FleetName, params api.ListFleetEventsParams) error {
	if s.fleets == nil {
		return errNoFleets()
	}
	after, limit := int64(-1), 0
	if params.After != nil {
		after = max(0, *params.After)
	}
	if params.Limit != nil {
		limit = *params.Limit
	}
	all, err := s.fleets.FleetEvents(c.Request().Context(), name, after, limit)
	if err != nil {
		return err
	}
	v := api.FleetEventList{Events: make([]api.FleetEvent, len(all))}
	for i, e := range all {
		v.Events[i] = api.FleetEvent{
			Number: e.Number, At: e.At.UTC(), Kind: e.Kind, Instance: e.Instance, Name: e.Name, By: e.By, Reason: e.Reason, Text: e.Text,
		}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// PauseFleet implements ServerInterface.
func (s *Server) PauseFleet(c echo.Context, name api.FleetName) error {
	return s.controlFleet(c, name, run.FleetActionPause)
}

// ResumeFleet implements ServerInterface.
func (s *Server) ResumeFleet(c echo.Context, name api.FleetName) error {
	return s.controlFleet(c, name, run.FleetActionResume)
}

// DrainFleet implements ServerInterface.
func (s *Server) DrainFleet(c echo.Context, name api.FleetName) error {
	return s.controlFleet(c, name, run.FleetActionDrain)
}

func (s *Server) controlFleet(c echo.Context, name string, action run.FleetAction) error {
	var body api.FleetReason
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	return s.doSteer(c, name, run.FleetControl{Action: action, Reason: body.Reason})
}

// ScaleFleet implements ServerInterface.
func (s *Server) ScaleFleet(c echo.Context, name api.FleetName) error {
	var body api.FleetScale
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	return s.doSteer(c, name, run.FleetControl{Action: run.FleetActionScale, Instances: body.Instances, Reason: body.Reason})
}

// PauseFleetRollout implements ServerInterface.
func (s *Server) PauseFleetRollout(c echo.Context, name api.FleetName) error {
	return s.controlFleet(c, name, run.FleetActionPauseRollout)
}

// ResumeFleetRollout implements ServerInterface.
func (s *Server) ResumeFleetRollout(c echo.Context, name api.FleetName) error {
	return s.controlFleet(c, name, run.FleetActionResumeRollout)
}

// GetFleetRollout implements ServerInterface.
func (s *Server) GetFleetRollout(c echo.Context, name api.FleetName) error {
	if s.fleets == nil {
		return errNoFleets()
	}
	r, err := s.fleets.FleetRollout(c.Request().Context(), name)
	if err != nil {
		return err
	}
	access.ShowRevisions(principal(c), r.Revisions)
	v := api.FleetRollout{
		Revision: r.Current, ObservedRevision: r.Revision, Phase: api.FleetRolloutPhase(r.Phase), Message: r.Message,
		Required: r.Required, Updated: r.Updated, Ready: r.Ready, Outdated: r.Outdated, Revisions: make([]api.FleetRevision, len(r.Revisions)),
	}
	for i, x := range r.Revisions {
		hideSettings(&x.Settings.PluginConfig, &x.Settings.ConnectorConfig)
		v.Revisions[i] = api.FleetRevision{Number: x.Number, Settings: x.Settings, CreatedAt: x.CreatedAt.UTC(), By: x.By, Instances: x.Instances}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// UndoFleetRollout implements ServerInterface.
func (s *Server) UndoFleetRollout(c echo.Context, name api.FleetName) error {
	var body api.FleetUndo
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	if s.fleets == nil {
		return errNoFleets()
	}
	if err := checkReason(body.Reason); err != nil {
		return err
	}
	u := run.FleetUndo{Revision: body.ToRevision, By: subject(c), Reason: body.Reason}
	return renderFleet(c, http.StatusOK)(s.fleets.UndoFleet(c.Request().Context(), name, u))
}

func (s *Server) doSteer(c echo.Context, name string, desired run.FleetControl) error {
	if s.fleets == nil {
		return errNoFleets()
	}
	if err := checkReason(desired.Reason); err != nil {
		return err
	}
	desired.By = subject(c)
	return renderFleet(c, http.StatusOK)(s.fleets.ControlFleet(c.Request().Context(), name, desired))
}

func viewFleet(f run.Fleet) api.Fleet {
	v := api.Fleet{
		Name: f.Name, Mode: api.FleetMode(f.Mode), Desired: f.Desired, Reason: f.Reason, Spec: f.Spec,
		Counts: map[string]int{}, Status: f.Status, CreatedAt: f.CreatedAt.UTC(), UpdatedAt: f.UpdatedAt.UTC(), Version: f.Version,
		Revision: f.Revision,
	}
	for state, n := range f.Counts {
		v.Counts[string(state)] = n
	}
	hideSettings(&v.Spec.PluginConfig, &v.Spec.ConnectorConfig)
	return v
}

// hideSettings hides the credentials in the settings of a fleet.
func hideSettings(plugin *json.RawMessage, connector *run.FleetConnector) {
	*plugin = hideCredentials(*plugin)
	if connector.Password != "" {
		connector.Password = hidden
	}
}

// hidden replaces values that are never shown.
const hidden = "***"

// hideCredentials hides all values below keys that look like credentials.
func hideCredentials(config json.RawMessage) json.RawMessage {
	var value any
	if len(config) == 0 || json.Unmarshal(config, &value) != nil {
		return nil
	}
	text, err := json.Marshal(hideIn(value, false))
	if err != nil {
		return nil
	}
	return text
}

// hideIn hides values and keeps the shape. below reports whether a key above
// looks like a credential.
func hideIn(value any, underCredential bool) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			value[key] = hideIn(inner, underCredential || run.LooksLikeCredential(key))
		}
	case []any:
		for i, inner := range value {
			value[i] = hideIn(inner, underCredential)
		}
	case nil: // not set
	default:
		if underCredential {
			return hidden
		}
	}
	return value
}

func viewInstance(x run.FleetInstance) api.FleetInstance {
	return api.FleetInstance{
		Number: x.Number, Instance: x.Instance, Request: x.Request, Cause: api.FleetInstanceCause(x.Cause), State: api.FleetInstanceState(x.State),
		Reason: x.Reason, Message: x.Message, Executor: x.Executor, Tasks: x.Tasks, Uses: x.Uses, Revision: x.Revision, RequestedAt: x.RequestedAt.UTC(), CreatedAt: x.CreatedAt.UTC(),
		RunningAt: x.RunningAt.UTC(), ReadyAt: x.ReadyAt.UTC(), DrainingAt: x.DrainingAt.UTC(), DeletingAt: x.DeletingAt.UTC(),
		GoneAt: x.GoneAt.UTC(), LastUsed: x.LastUsed.UTC(), MissingFrom: x.MissingFrom.UTC(),
	}
}
