package clitest

import (
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// approvals has the calls on tasks that wait for approval, and the read-back of
// specifications.
type approvals struct{ *Gateway }

// reject refuses the approval of a task: its simulated run fails.
func (g approvals) reject(w http.ResponseWriter, r *http.Request) {
	var body api.Rejection
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not JSON")
		return
	}
	id, name := r.PathValue("id"), r.PathValue("task")
	g.mu.Lock()
	known := g.find(id)
	switch {
	case known == nil:
		notFound(w, "run", id)
	case known.Tasks[name].Status != api.StatusWaitingApproval:
		problem(w, http.StatusConflict, "not_waiting_approval", "task "+name+" does not wait for an approval")
	default:
		t := known.Tasks[name]
		t.Status, t.Reason, t.Approval.RejectedBy = api.StatusFailed, "rejected by test: "+body.Reason, "test"
		known.Tasks[name] = t
		known.Actions = append(known.Actions, api.ClientAction{
			Action: api.ActionReject, Actor: "test", Time: Start(), Task: name, Reason: body.Reason,
		})
		g.mu.Unlock()
		g.get(w, r)
		return
	}
	g.mu.Unlock()
}

func (g approvals) listApprovals(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	page := api.ApprovalPage{Approvals: []api.Approval{}}
	for _, r := range g.runs {
		for name, t := range r.Tasks {
			if t.Status == api.StatusWaitingApproval {
				page.Approvals = append(page.Approvals, api.Approval{
					Run: r.ID, RunName: r.Name, Group: r.Group, Task: name, Approvers: t.Approval.Approvers, ApprovedBy: t.Approval.ApprovedBy,
					From: []string{"ann", "bob"}, WaitingSince: Start(), ExpiresAt: Start().Add(24 * time.Hour),
				})
			}
		}
	}
	answer(w, http.StatusOK, page)
}

func (g approvals) getSpec(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups.specs[r.PathValue("id")]
	if s == nil {
		notFound(w, "run", r.PathValue("id"))
		return
	}
	shown := *s
	shown.Secrets = maps.Clone(s.Secrets)
	for name := range shown.Secrets {
		shown.Secrets[name] = run.HiddenSecret
	}
	answer(w, http.StatusOK, shown)
}
