package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// errNoSchedules is the error of gateways without run.Schedules.
func errNoSchedules() error {
	return run.Errorf(run.CodeNotSupported, "this gateway does not serve schedules")
}

// ListSchedules implements ServerInterface.
func (s *Server) ListSchedules(c echo.Context, params api.ListSchedulesParams) error {
	if s.schedules == nil {
		return errNoSchedules()
	}
	q := run.ScheduleQuery{After: params.After}
	if params.Limit != nil {
		q.Limit = *params.Limit
	}
	var some bool
	if q.Within, some = access.Within(principal(c)); !some {
		return writeJSON(c, http.StatusOK, mediaJSON, api.ScheduleList{Schedules: []api.Schedule{}})
	}
	page, err := s.schedules.Schedules(c.Request().Context(), q)
	if err != nil {
		return err
	}
	v := api.ScheduleList{Schedules: make([]api.Schedule, len(page.Schedules)), NextAfter: page.After}
	for i, x := range page.Schedules {
		if v.Schedules[i], err = viewSchedule(x); err != nil {
			return err
		}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// GetSchedule implements ServerInterface.
func (s *Server) GetSchedule(c echo.Context, name api.ScheduleName) error {
	if s.schedules == nil {
		return errNoSchedules()
	}
	return renderSchedule(c, http.StatusOK)(s.schedules.Schedule(c.Request().Context(), name))
}

// PutSchedule implements ServerInterface.
func (s *Server) PutSchedule(c echo.Context, name api.ScheduleName) error {
	if s.schedules == nil {
		return errNoSchedules()
	}
	body, err := readPut(s, c, name, spec.ReadSchedule, func(x *run.ScheduleSpec) string { return x.Name })
	if err != nil {
		return err
	}
	if err := s.roles.AllowSchedule(c.Request().Context(), principal(c), name, body.resource.Spec); err != nil {
		return err
	}
	body.resource.Name = name
	x, created, err := s.schedules.PutSchedule(c.Request().Context(), *body.resource, subject(c))
	err = body.locateFaults(err, spec.LocateSchedule)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set("Location", s.base.Join("/api/v1/schedules/"+url.PathEscape(name)))
	}
	return renderSchedule(c, status)(x, err)
}

// DeleteSchedule implements ServerInterface.
func (s *Server) DeleteSchedule(c echo.Context, name api.ScheduleName) error {
	if s.schedules == nil {
		return errNoSchedules()
	}
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	if err := s.schedules.DeleteSchedule(c.Request().Context(), name); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// PauseSchedule implements ServerInterface.
func (s *Server) PauseSchedule(c echo.Context, name api.ScheduleName) error {
	if s.schedules == nil {
		return errNoSchedules()
	}
	note, err := s.note(c, "paused by ")
	if err != nil {
		return err
	}
	return renderSchedule(c, http.StatusOK)(s.schedules.PauseSchedule(c.Request().Context(), name, note))
}

// ResumeSchedule implements ServerInterface.
func (s *Server) ResumeSchedule(c echo.Context, name api.ScheduleName) error {
	if s.schedules == nil {
		return errNoSchedules()
	}
	note, err := s.note(c, "resumed by ")
	if err != nil {
		return err
	}
	return renderSchedule(c, http.StatusOK)(s.schedules.ResumeSchedule(c.Request().Context(), name, note))
}

// note reads a note from the body, or creates one with the name of the caller.
func (s *Server) note(c echo.Context, otherwise string) (string, error) {
	var body api.ScheduleNote
	if err := s.decode(c, &body, strict); err != nil {
		return "", err
	}
	if body.Note == "" {
		body.Note = otherwise + subject(c)
	}
	return body.Note, nil
}

// TriggerSchedule implements ServerInterface.
func (s *Server) TriggerSchedule(c echo.Context, name api.ScheduleName) error {
	if s.schedules == nil {
		return errNoSchedules()
	}
	var body api.ScheduleTrigger
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	if err := allowRuns(c, s.schedules, name); err != nil {
		return err
	}
	return renderSchedule(c, http.StatusOK)(s.schedules.TriggerSchedule(c.Request().Context(), name, run.Overlap(body.Overlap)))
}

// BackfillSchedule implements ServerInterface.
func (s *Server) BackfillSchedule(c echo.Context, name api.ScheduleName) error {
	if s.schedules == nil {
		return errNoSchedules()
	}
	var body api.ScheduleBackfill
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	if err := allowRuns(c, s.schedules, name); err != nil {
		return err
	}
	return renderSchedule(c, http.StatusOK)(s.schedules.BackfillSchedule(c.Request().Context(), name, run.Backfill{
		From: body.From, To: body.To, Overlap: run.Overlap(body.Overlap),
	}))
}

// allowRuns refuses a call that creates runs of a schedule at once if the caller could not
// submit its specification, as for a restart: an operator of all groups may have put it.
func allowRuns(c echo.Context, schedules run.Schedules, name string) error {
	if !principal(c).Restricted() {
		return nil
	}
	x, err := schedules.Schedule(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return access.AllowSpec(principal(c), x.Spec)
}

// renderSchedule answers with a schedule.
func renderSchedule(c echo.Context, status int) func(run.Schedule, error) error {
	return func(x run.Schedule, err error) error {
		if err != nil {
			return err
		}
		v, err := viewSchedule(x)
		if err != nil {
			return err
		}
		return writeJSON(c, status, mediaJSON, v)
	}
}

func viewSchedule(x run.Schedule) (api.Schedule, error) {
	v := api.Schedule{
		Name: x.Name, RunName: x.RunName, Group: x.Group, Cron: x.Cron, Timezone: x.Timezone, Jitter: viewDuration(x.Jitter),
		StartAt: x.StartAt, EndAt: x.EndAt, Overlap: api.Overlap(x.Overlap), CatchupWindow: viewDuration(x.CatchupWindow),
		PauseOnFailure: x.PauseOnFailure, Paused: x.Paused != nil && *x.Paused, Note: x.Note, SecretNames: x.SecretNames,
		CreatedAt: x.CreatedAt.UTC(), UpdatedAt: x.UpdatedAt.UTC(), Next: []time.Time{},
		Fired: x.Fired, OverlapSkipped: x.Overlapped, CatchupMissed: x.MissedCatchup,
	}
	if v.Overlap == "" {
		v.Overlap = api.Overlap(run.OverlapSkip)
	}
	for _, i := range x.Intervals {
		v.Intervals = append(v.Intervals, api.Interval{Every: i.Every.Std().String(), Offset: viewDuration(i.Offset)})
	}
	for _, at := range x.Next {
		v.Next = append(v.Next, at.UTC())
	}
	for _, f := range x.Recent {
		v.Recent = append(v.Recent, api.Firing{
			For: f.For.UTC(), At: f.At.UTC(), Run: string(f.Run), Error: f.Error, Phase: api.Phase(f.Phase), Result: api.Result(f.Result),
		})
	}
	if x.Spec == nil {
		return v, nil
	}
	var err error
	v.Spec, err = json.Marshal(x.Spec)
	return v, err
}

// viewDuration returns "" for a duration that is not set.
func viewDuration(d run.Duration) string {
	if d == 0 {
		return ""
	}
	return d.Std().String()
}
