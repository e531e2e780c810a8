package gateway

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// previewItems is the default number of items of each kind in a preview.
const previewItems = 10

// errNoRetention is the error of gateways without run.RetentionStatus.
func errNoRetention() error {
	return run.Errorf(run.CodeNotSupported, "this gateway does not serve the retention status")
}

// GetRetention implements ServerInterface.
func (s *Server) GetRetention(c echo.Context) error {
	if s.retention == nil {
		return errNoRetention()
	}
	status, err := s.retention.RetentionStatus(c.Request().Context())
	if err != nil {
		return err
	}
	v := api.Retention{
		Running: status.Running, Policy: viewPolicy(status.Retention), Removing: api.RetentionKind(status.Removing), Removed: []api.RetentionSum{},
	}
	if !status.Since.IsZero() {
		v.Since = status.Since.UTC()
	}
	if status.Removing == "" && !status.Next.IsZero() {
		v.NextLookAt = status.Next.UTC()
	}
	for _, kind := range run.RetentionKinds() {
		sum := status.Removed[kind]
		v.Removed = append(v.Removed, api.RetentionSum{Kind: api.RetentionKind(kind), Count: sum.Count, Bytes: sum.Bytes})
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// PreviewRetention implements ServerInterface.
func (s *Server) PreviewRetention(c echo.Context, params api.PreviewRetentionParams) error {
	if s.retention == nil {
		return errNoRetention()
	}
	status, err := s.retention.RetentionStatus(c.Request().Context())
	if err != nil {
		return err
	}
	policy := status.Retention
	if err := override(&policy, params); err != nil {
		return err
	}
	limit := previewItems
	if params.Limit != nil {
		limit = *params.Limit
	}
	all, err := s.retention.RetentionPreview(c.Request().Context(), policy, limit)
	if err != nil {
		return err
	}
	v := api.RetentionPreview{Policy: viewPolicy(policy), Due: make([]api.RetentionDue, len(all))}
	for i, due := range all {
		v.Due[i] = viewDue(due)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// override replaces settings of the configured policy with the given parameters.
func override(policy *run.Retention, params api.PreviewRetentionParams) error {
	var faults []run.Fault
	for _, age := range []struct {
		name, text string
		into       *run.Duration
	}{
		{"logs_max_age", params.LogsMaxAge, &policy.Logs.MaxAge},
		{"runs_max_age", params.RunsMaxAge, &policy.Runs.MaxAge},
		{"events_max_age", params.EventsMaxAge, &policy.Events.MaxAge},
		{"workspace_max_age", params.WorkspaceMaxAge, &policy.Archives.Workspaces},
		{"cache_max_age", params.CacheMaxAge, &policy.Archives.CacheUnused},
	} {
		if age.text == "" {
			continue
		}
		d, err := time.ParseDuration(age.text)
		if err != nil || d < 0 {
			faults = append(faults, run.Fault{Path: age.name, Code: run.CodeInvalid, Detail: age.name + " must be a duration such as 720h, and not negative"})
			continue
		}
		*age.into = run.Duration(d)
	}
	if len(faults) > 0 {
		return run.InvalidError(faults[0].Detail, faults)
	}
	if params.RunsKeep != nil {
		policy.Runs.Keep = *params.RunsKeep
	}
	if params.EventsKeep != nil {
		policy.Events.Keep = *params.EventsKeep
	}
	if params.CacheTotalBytes != nil {
		policy.Archives.CacheBytes = *params.CacheTotalBytes
	}
	return nil
}

func viewPolicy(r run.Retention) api.RetentionPolicy {
	return api.RetentionPolicy{
		Interval: r.Interval.Std().String(), PerSecond: r.PerSecond, LogsMaxAge: viewDuration(r.Logs.MaxAge),
		RunsMaxAge: viewDuration(r.Runs.MaxAge), RunsKeep: r.Runs.Keep, EventsMaxAge: viewDuration(r.Events.MaxAge), EventsKeep: r.Events.Keep,
		WorkspaceMaxAge: viewDuration(r.Archives.Workspaces), CacheMaxAge: viewDuration(r.Archives.CacheUnused), CacheTotalBytes: r.Archives.CacheBytes,
	}
}

func viewDue(due run.RetentionDue) api.RetentionDue {
	v := api.RetentionDue{
		Kind: api.RetentionKind(due.Kind), Count: due.Count, Bytes: due.Bytes, First: make([]api.RetentionItem, len(due.First)),
	}
	if !due.Oldest.IsZero() {
		v.Oldest = due.Oldest.UTC()
	}
	for i, x := range due.First {
		v.First[i] = api.RetentionItem{
			Run: string(x.Run), Task: x.Task, Name: x.Name, Scope: x.Scope, Event: x.Event, Bytes: x.Bytes, Since: x.Since.UTC(),
		}
	}
	return v
}
