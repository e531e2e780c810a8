package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/drover-run/drover/run"
)

// Get implements run.Service.
func (e *Engine) Get(ctx context.Context, id run.ID, tokenFor ...string) (run.Run, error) {
	r, err := e.store.GetRun(ctx, id, tokenFor...)
	if err != nil {
		return run.Run{}, err
	}
	return e.explain(ctx, r)
}

// explain gives every waiting task of an unfinished run that has no stored
// reason the one that holds now. It is computed when read, so it is true at
// that moment and costs nothing at any other.
func (e *Engine) explain(ctx context.Context, r run.Run) (run.Run, error) {
	if r.Phase.Final() {
		return r, nil
	}
	if r.Phase == run.PhaseQueued && r.Reason == "" {
		r.Reason = "starts as soon as a control worker takes it"
		if r.Admission == run.AdmissionManual {
			r.Reason = "waits to be started: its admission is manual"
		}
	}
	var pools map[string]run.Pool
	open := unfinished(r.Tasks)
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.Reason != "" {
			continue
		}
		switch t.Status { //nolint:exhaustive // the others do not wait
		case run.StatusNotStarted:
			t.Reason = dependencyReason(t.Depends, open)
		case run.StatusWaitingApproval:
			t.Reason = fmt.Sprintf("waits for approval: %d of %d given", len(t.ApprovedBy), max(1, t.Approval.Approvers))
		case run.StatusQueued:
			if pools == nil {
				list, err := e.store.ListPools(ctx)
				if err != nil {
					return run.Run{}, err
				}
				pools = make(map[string]run.Pool, len(list))
				for _, p := range list {
					pools[p.Name] = p
				}
			}
			t.Reason = poolReason(pools[t.Pool], t.Pool)
		}
	}
	return r, nil
}

// unfinished returns the names, as dependencies have them, of the tasks that
// are not final.
func unfinished(tasks []run.Task) map[string]bool {
	open := map[string]bool{}
	for _, t := range tasks {
		if !t.Status.Final() {
			base, _, _ := strings.Cut(t.Name, "[")
			open[base] = true
		}
	}
	return open
}

// maxNamed bounds how many tasks a reason names.
const maxNamed = 5

func dependencyReason(depends []run.Depend, open map[string]bool) string {
	var names []string
	more := 0
	for _, d := range depends {
		switch {
		case !open[d.Task]:
		case len(names) < maxNamed:
			names = append(names, d.Task)
		default:
			more++
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("waits for %s and %d more", strings.Join(names, ", "), more)
	}
	return "waits for " + strings.Join(names, ", ")
}

func poolReason(p run.Pool, name string) string {
	switch {
	case p.Online == 0:
		return fmt.Sprintf("no executor of pool %s is online", name)
	case p.SlotsUsed >= p.Slots:
		return fmt.Sprintf("all %d slots of pool %s are in use", p.Slots, name)
	}
	return fmt.Sprintf("waits for an executor of pool %s", name)
}
