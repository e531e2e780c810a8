package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drover-run/drover/records"
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
		var err error
		if r.Reason, err = e.queuedReason(ctx, r); err != nil {
			return run.Run{}, err
		}
	}
	var pools map[string]run.Pool
	var places map[int]int
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
				if places, err = e.store.Places(ctx, r.ID); err != nil {
					return run.Run{}, err
				}
				pools = make(map[string]run.Pool, len(list))
				for _, p := range list {
					pools[p.Name] = p
				}
			}
			t.Reason = poolReason(pools[t.Pool], t.Pool, places[t.Number])
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

func poolReason(p run.Pool, name string, place int) string {
	switch {
	case p.Online == 0:
		return fmt.Sprintf("no executor of pool %s is online", name)
	case p.SlotsUsed < p.Slots:
		return fmt.Sprintf("waits for an executor of pool %s", name)
	}
	reason := fmt.Sprintf("all %d slots of pool %s are in use", p.Slots, name)
	if place > 0 {
		reason += fmt.Sprintf("; place %d in line", place)
	}
	if wait := estimate(p, place); wait > 0 {
		reason += ", about " + wait.String()
	}
	return reason
}

// estimate tells how long a place in line is likely to take: what runs is on
// average half way through, so it lasts about twice as long as it has run so
// far, and each slot serves its share of the line. It is a guess.
func estimate(p run.Pool, place int) time.Duration {
	if place < 1 || p.Slots < 1 || p.MeanElapsed <= 0 {
		return 0
	}
	wait := 2 * p.MeanElapsed * time.Duration(place) / time.Duration(p.Slots)
	switch {
	case wait < time.Minute:
		return max(time.Second, wait.Round(time.Second))
	case wait < time.Hour:
		return wait.Round(time.Minute)
	}
	return wait.Round(10 * time.Minute)
}

// queuedReason tells what a queued run waits for.
func (e *Engine) queuedReason(ctx context.Context, r run.Run) (string, error) {
	if len(r.ChangeGroups) > 0 {
		waits, err := e.store.Waits(ctx, r.ID)
		if err != nil {
			return "", err
		}
		if reason := groupReason(waits); reason != "" {
			return reason, nil
		}
	}
	if r.Admission == run.AdmissionManual {
		return "waits to be started: its admission is manual", nil
	}
	return "starts as soon as a control worker takes it", nil
}

// groupReason names the groups that keep a run out, those that hold their
// slots, and the run's place.
func groupReason(waits []records.GroupWait) string {
	var reasons []string
	for _, w := range waits {
		if w.Holding+w.Place <= w.MaxRunning {
			continue
		}
		reason := fmt.Sprintf("change group %s: place %d in line, %d of %d slots held", w.Group, w.Place, w.Holding, w.MaxRunning)
		if len(w.Holders) > 0 {
			names := make([]string, len(w.Holders))
			for i, id := range w.Holders {
				names[i] = string(id)
			}
			reason += " by " + strings.Join(names, ", ")
			if more := w.Holding - len(w.Holders); more > 0 {
				reason += fmt.Sprintf(" and %d more", more)
			}
		}
		reasons = append(reasons, reason)
	}
	if len(reasons) == 0 {
		return ""
	}
	return "waits for " + strings.Join(reasons, "; ")
}
