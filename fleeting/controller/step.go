package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Step carries out a plan. id identifies the step: a repetition, whose
// predecessor may have stopped anywhere, does not repeat a request. The ledger
// holds the outcome of the plugin's calls. Step fails only if the records fail.
func (w *Worker) Step(ctx context.Context, name, id string, p Plan) error {
	f := w.fleet(name)
	s := &step{fleet: f, id: id, plan: p}
	if p.changes() {
		f.begin(id)
	}
	err := s.do(ctx)
	if p.changes() {
		f.end(id, err)
	}
	if err != nil {
		if run.CodeOf(err) == run.CodeNotFound { // deleted meanwhile
			return nil
		}
		return err
	}
	if !p.End {
		return nil
	}
	if err := f.group.end(ctx); err != nil {
		w.logger.WarnContext(ctx, "failed to shut down the plugin of a deleted fleet", "fleet", name, "error", err)
	}
	_, err = w.store.ChangeFleet(ctx, name, records.FleetChanges{
		Deleted: true, Events: []run.FleetEvent{{At: w.now(), Kind: "deleted", By: actorFleet, Text: "it has no instances left"}},
	})
	if run.CodeOf(err) == run.CodeNotFound {
		return nil
	}
	return err
}

// step is the state of one call of Step.
type step struct {
	*fleet
	id   string
	plan Plan
	view records.FleetView
}

// phase is one part of a step. It reads and writes the records, and returns the
// calls to the plugin that follow.
type phase func(context.Context) (after func(context.Context) error, _ error)

func (s *step) do(ctx context.Context) error {
	for _, phase := range []struct {
		needed bool
		do     phase
	}{
		{len(s.plan.Lost) > 0, s.removeLost},
		{len(s.plan.GiveUp) > 0, s.giveUp},
		{len(s.plan.Drain) > 0, s.drain},
		{len(s.plan.Delete) > 0, s.delete},
		{s.plan.Request.Count > 0, s.request},
	} {
		if !phase.needed {
			continue
		}
		after, err := s.record(ctx, phase.do)
		if err == nil && after != nil {
			err = after(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *step) record(ctx context.Context, do phase) (after func(context.Context) error, err error) {
	s.ledgerMu.Lock()
	defer s.ledgerMu.Unlock()
	if s.view, err = s.w.store.ViewFleet(ctx, s.name); err != nil {
		return nil, err
	}
	return do(ctx)
}

// forEachOrder calls do for each order whose row still exists.
func (s *step) forEachOrder(orders []Order, do func(Order, row)) {
	rows := rowsOf(s.view)
	for _, o := range orders {
		if i := slices.IndexFunc(rows, func(r row) bool { return r.Number == o.Number }); i >= 0 {
			do(o, rows[i])
		}
	}
}

// removeLost removes the executors of machines that are gone. The policies of their
// tasks decide what happens to the tasks.
func (s *step) removeLost(ctx context.Context) (func(context.Context) error, error) {
	b := &changeSet{now: s.w.now()}
	var errs []error
	s.forEachOrder(s.plan.Lost, func(o Order, r row) {
		if !r.lost() { // it is listed again
			return
		}
		for _, e := range r.executors {
			_, err := s.w.store.RemoveExecutor(ctx, e.ID, run.Removal{Reason: "its machine is gone: " + o.Message})
			if run.CodeOf(err) == run.CodeConflict { // the executor has just renewed its registration, and has tasks
				return
			}
			errs = append(errs, ignoreGone(err))
		}
		b.set(r, "gone", o.Reason, o.Message, func(n *records.LedgerRow) { n.State, n.GoneAt = run.InstanceGone, b.now })
	})
	return nil, errors.Join(append(errs, s.write(ctx, s.view, b.changes))...)
}

func ignoreGone(err error) error {
	switch run.CodeOf(err) { //nolint:exhaustive // all other codes are errors
	case run.CodeNotFound, run.CodeGone:
		return nil
	}
	return err
}

func (s *step) giveUp(ctx context.Context) (func(context.Context) error, error) {
	b := &changeSet{now: s.w.now()}
	s.forEachOrder(s.plan.GiveUp, func(o Order, r row) {
		if r.State == run.InstanceRequested && r.Instance == "" {
			b.set(r, "gone", o.Reason, o.Message, func(n *records.LedgerRow) { n.State, n.GoneAt = run.InstanceGone, b.now })
		}
	})
	return nil, s.write(ctx, s.view, b.changes)
}

// drain drains executors.
func (s *step) drain(ctx context.Context) (func(context.Context) error, error) {
	b := &changeSet{now: s.w.now()}
	var errs []error
	s.forEachOrder(s.plan.Drain, func(o Order, r row) {
		if r.State == run.InstanceDeleting {
			return
		}
		if r.State != run.InstanceDraining {
			b.set(r, "draining", o.Reason, o.Message, func(n *records.LedgerRow) { n.State, n.DrainingAt = run.InstanceDraining, b.now })
		}
		for _, e := range r.executors {
			_, err := s.w.store.DrainExecutor(ctx, e.ID, true, "its instance is deleted: "+o.Message)
			errs = append(errs, ignoreGone(err))
		}
	})
	// The ledger is written even after an error: no other component undoes a
	// drain that the ledger lacks.
	return nil, errors.Join(append([]error{s.write(ctx, s.view, b.changes)}, errs...)...)
}

// delete deletes machines that certainly hold no task.
func (s *step) delete(ctx context.Context) (func(context.Context) error, error) {
	b := &changeSet{now: s.w.now()}
	var ids []string
	var going []row
	s.forEachOrder(s.plan.Delete, func(o Order, r row) {
		late := overdue(r, b.now, s.view.Fleet.Spec)
		if !r.terminating() || r.State == run.InstanceDraining && !r.drained() && !late {
			return
		}
		if r.Instance == "" {
			b.set(r, "gone", o.Reason, o.Message, func(n *records.LedgerRow) { n.State, n.GoneAt = run.InstanceGone, b.now })
			return
		}
		kind := "deleting"
		if r.State == run.InstanceDeleting {
			kind = "deleting_again"
		}
		b.set(r, kind, o.Reason, o.Message, func(n *records.LedgerRow) { n.State, n.DeletingAt = run.InstanceDeleting, b.now })
		going = append(going, r)
		ids = append(ids, r.Instance)
	})
	if err := s.write(ctx, s.view, b.changes); err != nil {
		return nil, err
	}
	for _, r := range going {
		for _, e := range r.executors {
			_, err := s.w.store.RemoveExecutor(ctx, e.ID, run.Removal{Reason: "its instance is deleted: " + r.Message, Force: true})
			if err := ignoreGone(err); err != nil {
				return nil, err
			}
		}
	}
	return func(ctx context.Context) error { return s.decrease(ctx, ids) }, nil
}

// decrease calls the plugin to delete machines, and then updates the ledger.
func (s *step) decrease(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	group, err := s.group.get(ctx, s.w.open, s.view.Fleet)
	if err == nil {
		_, err = group.Decrease(ctx, ids)
		s.w.metrics.countOperations(s.name, "delete", len(ids))
	}
	s.recordDeletion(ids, err)
	if err != nil && len(ids) > 1 && ctx.Err() == nil && group != nil {
		// One invalid id may have kept the plugin from deleting the others.
		for _, id := range ids {
			_, err := group.Decrease(ctx, []string{id})
			s.recordDeletion([]string{id}, err)
		}
	}
	if err != nil {
		s.w.logger.WarnContext(ctx, "failed to delete instances; the next listing shows which remain", "fleet", s.name, "error", err)
	}
	return s.refreshLedger(ctx)
}

// recordDeletion records the plugin's answer to a deletion of instances.
func (s *step) recordDeletion(ids []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.undeleted, func(id, _ string) bool {
		return slices.Contains(ids, id) || !slices.ContainsFunc(s.view.Instances, func(r records.LedgerRow) bool { return r.Instance == id })
	})
	if err == nil {
		return
	}
	for _, id := range ids {
		s.undeleted[id] = truncate.String(withoutCredentials(s.view.Fleet.Spec, oneLine(err)), maxWhy, "...")
	}
}

// refreshLedger updates the ledger from a new listing, which alone proves the
// result of a change. If the listing fails, the next watch repeats it.
func (s *step) refreshLedger(ctx context.Context) error {
	s.ledgerMu.Lock()
	defer s.ledgerMu.Unlock()
	_, found, err := s.list(ctx, s.view.Fleet)
	if err != nil {
		return ctx.Err()
	}
	s.view, err = s.updateLedger(ctx, found, nil)
	return err
}

// request requests machines, once.
func (s *step) request(ctx context.Context) (func(context.Context) error, error) {
	b := &changeSet{now: s.w.now()}
	q := s.plan.Request
	for range q.Count {
		b.add(records.LedgerRow{FleetInstance: run.FleetInstance{
			Request: s.id, Cause: run.CauseRequested, State: run.InstanceRequested, RequestedAt: b.now, Reason: q.Reason, Message: q.Message,
			// increase uses the settings of this view, even if they have changed
			// in the meantime.
			Revision: s.view.Fleet.Revision,
		}}, "requested")
	}
	b.changes.Request = s.id
	var err error
	if b.changes.Capacity, err = s.room(ctx, q); err != nil {
		return nil, err
	}
	written, err := s.w.store.ChangeFleet(ctx, s.name, b.changes)
	if err != nil {
		return nil, err
	}
	if len(written) == 0 { // an earlier execution began the request, or the limits allow no instance
		return s.resume, nil
	}
	return func(ctx context.Context) error { return s.increase(ctx, len(written)) }, nil
}

// increase calls the plugin to create machines, and then updates the ledger.
func (s *step) increase(ctx context.Context, n int) error {
	group, refusal := s.group.get(ctx, s.w.open, s.view.Fleet)
	promised := 0
	if m := readMemory(s.view.PolicyState); refusal == nil && m.Refusals >= refusalsRestart {
		refusal = s.restart(ctx, group, m)
	}
	if refusal == nil {
		promised, refusal = group.Increase(ctx, n)
		s.w.metrics.countOperations(s.name, "create", n)
	}
	if ctx.Err() != nil { // the repetition of the step cannot know whether the plugin was called
		return context.Cause(ctx)
	}
	if refusal != nil {
		defer s.setRefusal("")
		if err := s.reportRefusal(ctx, refusal); err != nil {
			s.w.logger.WarnContext(ctx, "failed to write the refusal to the status of the fleet; the next round does", "fleet", s.name, "error", err)
		}
	}
	if err := s.refreshLedger(ctx); err != nil {
		return err
	}
	return s.recordResponse(ctx, promised, refusal)
}

// reportRefusal writes the plugin's answer to the status of the fleet, because
// the listing that shows its result may take long. It does not wait for a
// listing either, so it leaves the rest of the status to the next round.
func (s *step) reportRefusal(ctx context.Context, refusal error) error {
	why := s.refusalText(refusal)
	s.setRefusal(why)
	_, err := s.w.store.ChangeFleet(ctx, s.name, records.FleetChanges{Error: &records.FleetError{Text: why, At: s.w.now()}})
	return err
}

func (s *step) refusalText(refusal error) string {
	return "the plugin refused: " + withoutCredentials(s.view.Fleet.Spec, oneLine(refusal))
}

func (f *fleet) setRefusal(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusal = text
}

// restart restarts a plugin that refuses all requests.
func (s *step) restart(ctx context.Context, group Group, m memory) error {
	last := cmp.Or(m.Refusal, m.LastWhy) // an earlier worker did not record the refusal
	text := fmt.Sprintf("the plugin refused %d requests in a row and is restarted; the last: %s", m.Refusals, last)
	s.w.logger.WarnContext(ctx, "restarting the plugin of a fleet: it refuses all requests", "fleet", s.name, "refusals", m.Refusals, "error", last)
	if _, err := s.w.store.ChangeFleet(ctx, s.name, records.FleetChanges{
		Events: []run.FleetEvent{{At: s.w.now(), Kind: "plugin_restarted", By: actorFleet, Reason: reasonRefused, Text: text}},
	}); err != nil {
		return err
	}
	if err := group.Restart(ctx); err != nil {
		return fmt.Errorf("restart the plugin: %w", err)
	}
	return nil
}

// recordResponse records the plugin's answer to a request: refused instances will not
// be created, promised ones may be.
func (s *step) recordResponse(ctx context.Context, promised int, refusal error) error {
	s.ledgerMu.Lock()
	defer s.ledgerMu.Unlock()
	v, err := s.w.store.ViewFleet(ctx, s.name)
	if err != nil {
		return err
	}
	b := &changeSet{now: s.w.now()}
	var open []row
	created := 0
	for _, r := range rowsOf(v) {
		if r.Request != s.id {
			continue
		}
		if r.Instance != "" {
			created++
			continue
		}
		open = append(open, r)
	}
	expected := max(0, promised-created)
	why := "the plugin promised fewer"
	if refusal != nil {
		why = s.refusalText(refusal)
	}
	for i, r := range open {
		if i < expected {
			b.set(r, "", "", "", func(n *records.LedgerRow) { n.Acknowledged = true })
			continue
		}
		b.set(r, "gone", reasonRefused, why, func(n *records.LedgerRow) { n.State, n.GoneAt, n.Acknowledged = run.InstanceGone, b.now, true })
	}
	if m := readMemory(v.PolicyState); m.countRefusals(refusal, created, why) || expected < len(open) {
		if expected < len(open) {
			m.recordFailure(b.now, open[0].RequestedAt, why)
		}
		text := m.text()
		b.changes.PolicyState = &text
	}
	return s.write(ctx, v, b.changes)
}

// resume ends an interrupted request. The plugin may or may not have received
// it, so it is not repeated. Machines that it created are listed before long.
func (s *step) resume(ctx context.Context) error {
	begin := s.w.now()
	for {
		if err := s.refreshLedger(ctx); err != nil {
			return err
		}
		v, err := s.w.store.ViewFleet(ctx, s.name)
		if err != nil {
			return err
		}
		b := &changeSet{now: s.w.now()}
		for _, r := range rowsOf(v) {
			if r.Request == s.id && r.Instance == "" && !r.Acknowledged {
				b.set(r, "gone", reasonUnknown, "the fleet worker ended during the request, and no machine appeared", func(n *records.LedgerRow) {
					n.State, n.GoneAt = run.InstanceGone, b.now
				})
			}
		}
		if b.empty() {
			return nil
		}
		if s.w.now().Sub(begin) >= settleTimeout {
			return s.write(ctx, v, b.changes)
		}
		if err := retry.Sleep(ctx, v.Fleet.Spec.Interval(true)); err != nil {
			return err
		}
	}
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(fmt.Sprint(err)), " ")
}
