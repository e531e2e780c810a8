package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// explain sets the reason of a queued run, and of every waiting task of an
// unfinished run. It does so if no reason is stored, or if the stored one does
// not mention that no executor is online. It computes the reasons when they are
// read, so they are current and cost nothing otherwise. While Temporal does not
// answer, the run and its queued tasks say so too.
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
	away := e.outage.since(ctx)
	if !away.IsZero() {
		r.Reason = joinReasons(outageText(away)+": nothing starts, and what runs continues", r.Reason)
	}
	var queues *queueInfo
	var slots map[int][]records.GroupWait
	open, begun := unfinished(r.Tasks), begunTasks(r.Tasks)
	ordinary := slices.ContainsFunc(r.Tasks, func(t run.Task) bool { return !t.Finally && !t.Status.Final() })
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.Reason != "" && t.Status != run.StatusQueued {
			continue
		}
		switch t.Status { //nolint:exhaustive // the others do not wait
		case run.StatusNotStarted:
			t.Reason = cmp.Or(dependencyReason(t.Depends, open), parallelReason(t, begun))
			if t.Finally && ordinary {
				t.Reason = finallyReason
			}
		case run.StatusWaitingApproval:
			t.Reason = approvalReason(t)
		case run.StatusWaitingChangeGroup:
			if slots == nil {
				var err error
				if slots, err = e.store.TaskWaits(ctx, r.ID); err != nil {
					return run.Run{}, err
				}
			}
			t.Reason = slotsReason(ctx, slots[t.Number])
		case run.StatusQueued:
			if queues == nil {
				var err error
				if queues, err = e.queueInfo(ctx, r); err != nil {
					return run.Run{}, err
				}
			}
			t.Reason = queues.reason(t)
			if !away.IsZero() {
				t.Reason = joinReasons(outageText(away), t.Reason)
			}
		}
	}
	return r, nil
}

// joinReasons joins two reasons, of which the second may be "".
func joinReasons(first, second string) string {
	if second == "" {
		return first
	}
	return first + "; " + second
}

// finallyReason is the reason of all finally tasks that wait, so that clients can group
// them.
const finallyReason = "waits until all tasks without finally have ended"

// approvalReason returns how many approvals a task has, who may give the others, and
// until when.
func approvalReason(t *run.Task) string {
	reason := fmt.Sprintf("waits for approval: %d of %d given", len(t.ApprovedBy), max(1, t.Approval.Approvers))
	if from := t.Approval.From; len(from) > 0 {
		names, more := from[:min(len(from), maxNamed)], ""
		if len(from) > maxNamed {
			more = fmt.Sprintf(" or %d more", len(from)-maxNamed)
		}
		reason += "; from " + strings.Join(names, ", ") + more
	}
	if !t.ApprovalDue.IsZero() {
		reason += "; rejected at " + t.ApprovalDue.Format(time.RFC3339)
	}
	return reason
}

// queueInfo holds what queued tasks wait for, and their positions in the
// queues.
type queueInfo struct {
	pools map[string]run.Pool
	// labelled has, for labels that tasks require of their executor, the pool as if
	// only the executors with these labels served it.
	labelled  map[poolLabels]labelledPool
	positions map[int]int // positions of tasks, by their numbers
	// fleets has what the fleets of each pool report, if no executor has a free
	// slot.
	fleets map[string]string
}

// reason returns what a queued task waits for. A stored reason says why the
// task is queued again, such as a retry. If no executor is online, that alone
// would mislead.
func (l *queueInfo) reason(t *run.Task) string {
	p, name, none := l.poolOf(t)
	fleets := ""
	if noFreeSlot(p) {
		fleets = l.fleets[t.Pool]
	}
	if t.Reason != "" && p.Online > 0 {
		return t.Reason + fleets
	}
	text := none
	if none == "" {
		text = poolReason(p, name, l.positions[t.Number])
	}
	text += fleets
	if t.Reason != "" {
		text += "; " + t.Reason
	}
	return text
}

// maxQueued is how many tasks may wait in the pools of a run whose tasks get positions:
// the query for them reads every waiting task.
const maxQueued = 20_000

// queueInfo reads the pools. It reads the positions only if a pool is full.
func (e *Engine) queueInfo(ctx context.Context, r run.Run) (*queueInfo, error) {
	list, err := e.store.ListPools(ctx)
	if err != nil {
		return nil, err
	}
	queues := &queueInfo{pools: make(map[string]run.Pool, len(list)), fleets: map[string]string{}}
	for _, p := range list {
		queues.pools[p.Name] = p
	}
	if err := explainLabels(ctx, e.store, r, queues); err != nil {
		return nil, err
	}
	if err := e.explainFleets(ctx, r, queues); err != nil {
		return nil, err
	}
	if queues.waiting(r) > maxQueued {
		return queues, nil
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if p, _, _ := queues.poolOf(t); t.Status == run.StatusQueued && t.Reason == "" && full(p) {
			queues.positions, err = e.store.QueuePositions(ctx, r.ID)
			return queues, err
		}
	}
	return queues, nil
}

// waiting counts the tasks of all runs that wait in the pools of a run's queued tasks.
func (l *queueInfo) waiting(r run.Run) (n int) {
	counted := map[string]bool{}
	for _, t := range r.Tasks {
		if t.Status == run.StatusQueued && !counted[t.Pool] {
			counted[t.Pool] = true
			n += l.pools[t.Pool].Queued
		}
	}
	return n
}

// full reports whether executors are online and all their slots are used, or the pool
// runs as many tasks as it may.
func full(p run.Pool) bool { return p.Online > 0 && (p.SlotsUsed >= p.Slots || atLimit(p)) }

// noFreeSlot reports whether a task waits for a slot that only another machine, or the
// end of another task, can give it. What fleets do matters then.
func noFreeSlot(p run.Pool) bool { return p.Online == 0 || full(p) && !atLimit(p) }

// atLimit reports whether a pool runs as many tasks as it may.
func atLimit(p run.Pool) bool { return p.MaxRunning > 0 && p.Running >= p.MaxRunning }

// unfinished returns the names of the tasks that are not final, as dependencies
// name them.
func unfinished(tasks []run.Task) map[string]bool {
	open := map[string]bool{}
	for _, t := range tasks {
		if !t.Status.Final() {
			open[baseName(&t)] = true
		}
	}
	return open
}

// begunTasks returns how many of the tasks of each matrix or list have begun and not ended, by
// their name without a suffix.
func begunTasks(tasks []run.Task) map[string]int {
	begun := map[string]int{}
	for _, t := range tasks {
		if t.MaxParallel > 0 && t.Status != run.StatusNotStarted && !t.Status.Final() {
			begun[baseName(&t)]++
		}
	}
	return begun
}

// parallelReason returns the reason of a task that waits for others of its matrix or list, "" if
// it does not.
func parallelReason(t *run.Task, begun map[string]int) string {
	if t.MaxParallel == 0 || begun[baseName(t)] < t.MaxParallel {
		return ""
	}
	return fmt.Sprintf("waits for other tasks of its matrix or list: at most %d at once (max_parallel)", t.MaxParallel)
}

// baseName returns the name of a task without the suffix of its expansion.
func baseName(t *run.Task) string {
	base, _, _ := strings.Cut(t.Name, "[")
	return base
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
	case p.Online == 0 && p.Draining > 0 && p.Offline == 0:
		return fmt.Sprintf("all executors of pool %s are draining", name)
	case p.Online == 0 && p.Draining > 0:
		return fmt.Sprintf("all executors of pool %s are draining or offline", name)
	case p.Online == 0:
		return fmt.Sprintf("no executor of pool %s is online", name)
	case !full(p):
		return fmt.Sprintf("waits for an executor of pool %s", name)
	}
	reason := fmt.Sprintf("all %d slots of pool %s are in use", p.Slots, name)
	if atLimit(p) {
		reason = fmt.Sprintf("%d of at most %d tasks of pool %s are running", p.Running, p.MaxRunning, p.Name)
	} else if p.Slots == 1 {
		reason = fmt.Sprintf("the only slot of pool %s is in use", name)
	}
	if place > 0 {
		reason += fmt.Sprintf("; position %d in queue", place)
	}
	if wait := estimate(p, place); wait > 0 {
		reason += ", about " + formatWait(wait)
	}
	return reason
}

// estimate returns how long a task is likely to wait for a slot. A running task
// is on average half way through, so it lasts about twice as long as it has run
// so far, and each slot serves its share of the queue. It is a rough estimate.
func estimate(p run.Pool, place int) time.Duration {
	if place < 1 || p.Slots < 1 || p.MeanElapsed <= 0 {
		return 0
	}
	slots := p.Slots
	if p.MaxRunning > 0 {
		slots = min(slots, p.MaxRunning)
	}
	wait := 2 * p.MeanElapsed * time.Duration(place) / time.Duration(slots)
	switch {
	case wait < time.Minute:
		return max(time.Second, wait.Round(time.Second))
	case wait < time.Hour:
		return wait.Round(time.Minute)
	}
	return wait.Round(10 * time.Minute)
}

// formatWait formats a rounded duration without trailing zero units: 2m, 1h20m.
func formatWait(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// queuedReason returns what a queued run waits for.
func (e *Engine) queuedReason(ctx context.Context, r run.Run) (string, error) {
	// A run without change groups may belong to those of its group's path.
	waits, err := e.store.GroupWaits(ctx, r.ID)
	if err != nil {
		return "", err
	}
	hideOthers(ctx, waits)
	if reason := groupReason(waits); reason != "" {
		return reason, nil
	}
	if len(waits) > 0 {
		return "is about to get its slots: its change groups have some free", nil
	}
	if r.Admission == run.AdmissionManual {
		return "waits to be started: its admission is manual", nil
	}
	return "starts as soon as a control worker takes it", nil
}

// slotsReason returns what a task that waits for slots waits for.
func slotsReason(ctx context.Context, waits []records.GroupWait) string {
	hideOthers(ctx, waits)
	if reason := groupReason(waits); reason != "" {
		return reason
	}
	return "is about to get its slots: its change groups have some free"
}

// hideOthers leaves out the holders of slots if the caller may not know of all groups.
func hideOthers(ctx context.Context, waits []records.GroupWait) {
	if !run.OthersHidden(ctx) {
		return
	}
	for i := range waits {
		waits[i].Holders = nil
	}
}

// groupReason names the groups that a run or a task waits for, the runs that hold their
// slots, and the run's position.
func groupReason(waits []records.GroupWait) string {
	var reasons []string
	for _, w := range waits {
		if w.Holding+w.Ahead+min(max(1, w.Units), w.MaxRunning) <= w.MaxRunning {
			continue
		}
		later := ""
		if w.Later {
			later = " or later"
		}
		reason := fmt.Sprintf("change group %s: position %d%s in queue, %d of %d slots held", w.Group, w.Position, later, w.Holding, w.MaxRunning)
		if len(w.Holders) > 0 {
			names := make([]string, len(w.Holders))
			for i, id := range w.Holders {
				names[i] = string(id)
			}
			reason += " by " + strings.Join(names, ", ")
			if more := w.Holding - len(w.Holders); more > 0 && len(w.Holders) == records.NamedHolders { // fewer ones hold several slots each
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
