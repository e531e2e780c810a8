package gateway

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// renderRun answers with a run.
func renderRun(c echo.Context, status int, r run.Run) error {
	c.Response().Header().Set("ETag", etagOf(r))
	return writeJSON(c, status, mediaJSON, viewRun(r))
}

// renderIfChanged answers with a run, or with 304 if the client has this version.
func renderIfChanged(c echo.Context, known string, r run.Run) error {
	h := c.Response().Header()
	h.Set("Cache-Control", "private, no-cache")
	tag := etagOf(r)
	for candidate := range strings.SplitSeq(known, ",") {
		if candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/"); candidate == tag || candidate == "*" {
			h.Set("ETag", tag)
			return c.NoContent(http.StatusNotModified)
		}
	}
	return renderRun(c, http.StatusOK, r)
}

// etagOf returns the entity tag of a run: its version and a hash of the reasons,
// because some reasons are computed when the run is read.
func etagOf(r run.Run) string {
	hash := fnv.New64a()
	add := func(s string) { _, _ = hash.Write(append([]byte(s), 0)) }
	add(r.Reason)
	add(r.Token.String())
	for i := range r.Tasks {
		add(r.Tasks[i].Reason)
	}
	return fmt.Sprintf(`"%d-%x"`, r.Version, hash.Sum64())
}

func viewRun(r run.Run) api.Run {
	v := api.Run{
		ID: string(r.ID), Counter: r.Counter, Name: r.Name, Group: r.Group, Changegroups: listOf(r.ChangeGroups),
		Priority: r.Priority, Admission: api.Admission(r.Admission), Phase: api.Phase(r.Phase), Result: api.Result(r.Result),
		Reason: r.Reason, Annotations: mapOf(r.Annotations), Environment: mapOf(r.Environment),
		InputValues: r.InputValues, SecretNames: listOf(r.SecretNames), SetupErrors: r.SetupErrors,
		CreatedAt: r.CreatedAt.UTC(), StartedAt: r.StartedAt.UTC(), EndedAt: r.EndedAt.UTC(),
		StopRequested: r.StopRequested,
		RestartedFrom: string(r.RestartedFrom), ChangegroupToken: r.Token.String(),
	}
	for _, id := range r.RestartedAs {
		v.RestartedAs = append(v.RestartedAs, string(id))
	}
	v.CreatedBy = r.CreatedBy
	v.StartedBy, v.StoppedBy, v.CancelledBy = r.FirstActor(run.ActionStart), r.FirstActor(run.ActionStop), r.FirstActor(run.ActionCancel)
	for _, a := range r.Actions {
		v.Actions = append(v.Actions, api.ClientAction{Action: api.Action(a.Kind), Actor: a.Actor, Time: a.Time.UTC(), Task: a.Task, Reason: a.Reason})
	}
	v.Tests = viewTests(r.Tests)
	if r.Tasks == nil {
		v.TaskCounts = viewCounts(r.TaskCounts)
		return v
	}
	for _, t := range r.Warnings() {
		v.Warnings = append(v.Warnings, t.Name)
	}
	v.Tasks = make(map[string]api.Task, len(r.Tasks))
	for i := range r.Tasks {
		v.Tasks[r.Tasks[i].Name] = viewTask(&r.Tasks[i])
	}
	return v
}

func viewCounts(counts map[run.Status]int) map[string]int {
	v := make(map[string]int, len(counts))
	for status, n := range counts {
		v[string(status)] = n
	}
	return v
}

func viewTask(t *run.Task) api.Task {
	v := api.Task{
		Number: t.Number, Status: api.Status(t.Status), AllowFailure: t.AllowFailure, Finally: t.Finally, Reason: t.Reason, Pool: t.Pool, Executor: t.Executor,
		Attempt: t.Attempt, ExitCode: t.ExitCode, TimedOut: t.TimedOut, Stage: api.Stage(t.Stage), Cause: string(t.Cause),
		QueuedAt: t.QueuedAt.UTC(), StartedAt: t.StartedAt.UTC(), EndedAt: t.EndedAt.UTC(),
		Depends: make([]api.Dependency, len(t.Depends)), Outputs: mapOf(t.Outputs), Annotations: mapOf(t.Annotations),
		Steps: make([]api.Step, len(t.Steps)),
	}
	for i, d := range t.Depends {
		v.Depends[i] = viewDependency(d)
	}
	for i, s := range t.Steps {
		v.Steps[i] = api.Step{
			Name: s.Name, Type: s.Type, Status: api.Status(s.Status), ExitCode: s.ExitCode, TimedOut: s.TimedOut,
			StartedAt: s.Started.UTC(), EndedAt: s.Ended.UTC(),
		}
	}
	for _, s := range run.StagesOf(t) {
		stage := api.StageTimes{Stage: api.Stage(s.Stage), StartedAt: s.Started.UTC(), EndedAt: s.Ended.UTC()}
		if s.Step >= 0 {
			stage.Step = &s.Step
		}
		v.Stages = append(v.Stages, stage)
	}
	if t.Approval.Approvers > 0 {
		v.Approval = api.TaskApproval{
			Approvers: t.Approval.Approvers, ApprovedBy: listOf(t.ApprovedBy), From: t.Approval.From, RejectedBy: t.RejectedBy,
			ExpiresAt: t.ApprovalDue.UTC(),
		}
	}
	for _, g := range t.ChangeGroups {
		v.Changegroups = append(v.Changegroups, api.TaskChangeGroup{Name: g.Name, Units: max(1, g.Units)})
	}
	return v
}

// viewDependency makes the default condition explicit.
func viewDependency(d run.Depend) api.Dependency {
	on := d.On
	if len(on) == 0 {
		on = []run.Condition{run.OnSuccess}
	}
	v := api.Dependency{Task: d.Task, On: make([]api.Condition, len(on))}
	for i, c := range on {
		v.On[i] = api.Condition(c)
	}
	return v
}
