package gateway

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// executorDesk returns the desk of executors.
func (s *Server) executorDesk() (run.Desk, error) {
	if s.desk == nil {
		return nil, run.Errorf(run.CodeNotSupported, "this gateway does not serve executors")
	}
	return s.desk, nil
}

// headerExecutorState tells an executor that it was removed. The code forbidden
// alone would not: a token without the scope is forbidden too, and an executor
// that takes itself for removed gives up its tasks.
const headerExecutorState = "Drover-Executor-State"

// headerPass brings an executor a pass in the place of one that expires.
const headerPass = "Drover-Pass"

// expiring reports whether half of the caller's pass is over, so that it is to be
// replaced.
func (s *Server) expiring(c echo.Context) bool {
	p := principal(c)
	return !p.Expires.IsZero() && s.keys != nil && time.Since(p.Made) >= p.Expires.Sub(p.Made)/2
}

// prolong answers the sign of life of an executor with a new pass: as long as it
// is there, is not removed, and the fleet has its instance, its pass never expires.
func (s *Server) prolong(c echo.Context, w run.Wanted) {
	p := principal(c)
	b := p.Binding
	if b.Fleet == "" { // of no fleet, or made by a version that did not say it
		b.Fleet, b.Instance = w.Fleet, w.Instance
	}
	if w.Gone || b.Fleet != w.Fleet || b.Instance != w.Instance {
		s.logger.DebugContext(c.Request().Context(), "pass not renewed, its instance is gone", "executor", p.Name, "fleet", b.Fleet, "instance", b.Instance)
		return
	}
	pass, err := s.keys.Pass(b, time.Now(), p.Expires.Sub(p.Made))
	if err != nil {
		s.logger.WarnContext(c.Request().Context(), "a pass was not made", "executor", p.Name, "error", err)
		return
	}
	c.Response().Header().Set(headerPass, pass)
}

// ofFleet returns which instance of which fleet an executor is that registers.
// Its token proves it. Only one that is trusted with all executors, or shared by
// the instances of a fleet, is believed what it says itself: that is all of it,
// or the instance. Errors: invalid.
func ofFleet(c echo.Context, labels map[string]string) (fleet, instance string, err error) {
	b := principal(c).Binding
	switch {
	case !b.Bound():
		return labels[run.LabelFleet], labels[run.LabelInstance], nil
	case b.Fleet == "" || b.Instance != "":
		return b.Fleet, b.Instance, nil
	case labels[run.LabelInstance] == "":
		return "", "", run.Errorf(run.CodeInvalid, "token %s is bound to fleet %s: the label %s must say which instance the executor is",
			subject(c), b.Fleet, run.LabelInstance)
	}
	return b.Fleet, labels[run.LabelInstance], nil
}

// deskError marks the errors that tell an executor that it was removed. Every
// error of a call of run.Desk passes it, and no other.
func deskError(c echo.Context, err error) error {
	if run.CodeOf(err) == run.CodeForbidden {
		c.Response().Header().Set(headerExecutorState, string(run.ExecutorRemoved))
	}
	return err
}

// deskWanted answers with what is wanted of an executor.
func deskWanted(c echo.Context, w run.Wanted, err error) error {
	if err != nil {
		return deskError(c, err)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, api.Wanted{Drain: w.Drain})
}

// DeskRegister implements ServerInterface.
func (s *Server) DeskRegister(c echo.Context) error {
	var body api.Registration
	desk, err := s.deskBody(c, &body)
	if err != nil {
		return err
	}
	if err := checkRegistration(body); err != nil {
		return err
	}
	if err := bound(c, body.ID, body.Set); err != nil {
		return err
	}
	if b := principal(c).Binding; !b.AllowsPool(body.Pool) {
		return run.Errorf(run.CodeForbidden, "token %s is bound to pool %s and may not serve pool %s", subject(c), b.Pool, body.Pool)
	}
	e := run.Executor{
		ID: body.ID, JournalID: body.JournalID, Pool: body.Pool, Driver: body.Driver, OS: body.OS, Arch: body.Arch,
		Labels: body.Labels, Privileged: body.Privileged, Slots: body.Slots, SlotsUsed: body.SlotsUsed, Version: body.Version,
		Set: body.Set, Temporary: body.Temporary,
	}
	if e.Fleet, e.Instance, err = ofFleet(c, body.Labels); err != nil {
		return err
	}
	if body.Draining {
		e.State = run.ExecutorDraining
	}
	if body.RemoveAfter != "" {
		if e.RemoveAfter, err = time.ParseDuration(body.RemoveAfter); err != nil || e.RemoveAfter < 0 {
			return run.Errorf(run.CodeInvalid, "remove_after: %q is not a duration such as 10m", body.RemoveAfter)
		}
	}
	wanted, err := desk.Register(c.Request().Context(), e)
	return deskWanted(c, wanted, err)
}

// DeskRenew implements ServerInterface.
func (s *Server) DeskRenew(c echo.Context) error {
	var body api.Renewal
	desk, err := s.deskBody(c, &body)
	if err != nil {
		return err
	}
	if err := need(given{"executor", body.Executor}, given{"journal_id", body.JournalID}); err != nil {
		return err
	}
	if err := bound(c, body.Executor, body.Set); err != nil {
		return err
	}
	expiring := s.expiring(c)
	wanted, err := desk.Renew(c.Request().Context(), run.Renewal{
		Executor: body.Executor, Set: body.Set, JournalID: body.JournalID, SlotsUsed: body.SlotsUsed, Draining: body.Draining,
		Drained: body.Drained, Expiring: expiring,
	})
	if err == nil && expiring {
		s.prolong(c, wanted)
	}
	return deskWanted(c, wanted, err)
}

// DeskClaim implements ServerInterface.
func (s *Server) DeskClaim(c echo.Context) error {
	var body api.ClaimRequest
	desk, err := s.deskBody(c, &body)
	if err != nil {
		return err
	}
	err = need(given{"executor", body.Executor}, given{"journal_id", body.JournalID}, given{"key.run", string(body.Key.Run)})
	if err != nil {
		return err
	}
	if err := bound(c, body.Executor, body.Set); err != nil {
		return err
	}
	if err := bounded(given{"set", body.Set}); err != nil {
		return err
	}
	handed, err := s.handed(c, body)
	if err != nil {
		return err
	}
	d, err := desk.Claim(c.Request().Context(), run.ClaimRequest{
		Key: body.Key, Executor: body.Executor, Set: body.Set, JournalID: body.JournalID, Knows: body.Knows,
		Pool: principal(c).Binding.Pool, Repeat: !handed,
	})
	if err != nil {
		return deskError(c, err)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, d)
}

// DeskShip implements ServerInterface.
func (s *Server) DeskShip(c echo.Context) error {
	var body api.FrameBatch
	desk, err := s.deskBody(c, &body)
	if err != nil {
		return err
	}
	if err := need(given{"executor", body.Executor}, given{"key.run", string(body.Key.Run)}); err != nil {
		return err
	}
	if err := bound(c, body.Executor, ""); err != nil {
		return err
	}
	if len(body.Frames) == 0 {
		return run.Errorf(run.CodeInvalid, "a batch holds at least 1 frame")
	}
	if err := desk.Ship(c.Request().Context(), body); err != nil {
		return deskError(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// DeskClaimStates implements ServerInterface.
func (s *Server) DeskClaimStates(c echo.Context) error {
	var body api.ClaimStatesRequest
	desk, err := s.deskBody(c, &body)
	if err != nil {
		return err
	}
	if err := need(given{"executor", body.Executor}); err != nil {
		return err
	}
	if err := bound(c, body.Executor, ""); err != nil {
		return err
	}
	if len(body.Keys) > run.MaxClaimKeys {
		return run.Errorf(run.CodeInvalid, "%d claims are asked for; the limit is %d", len(body.Keys), run.MaxClaimKeys)
	}
	states, err := desk.ClaimStates(c.Request().Context(), body.Executor, body.Keys)
	if err != nil {
		return deskError(c, err)
	}
	v := api.ClaimStates{States: make([]api.KeyState, len(body.Keys))}
	for i, key := range body.Keys {
		v.States[i] = api.KeyState{Key: key, State: api.KeyStateState(orDefault(states[key], run.ClaimUnknown))}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

func (s *Server) deskBody(c echo.Context, v any) (run.Desk, error) {
	desk, err := s.executorDesk()
	if err != nil {
		return nil, err
	}
	return desk, s.decode(c, v, lenient)
}

// bound refuses a call for an executor that the token is not bound to, or for a
// set. It does not come from the desk, so it never reads as the executor being
// removed.
func bound(c echo.Context, executor, set string) error {
	b := principal(c).Binding
	switch {
	case !b.AllowsExecutor(executor):
		return run.Errorf(run.CodeForbidden, "token %s is bound to executor %s and may not act as %s", subject(c), b.Executor, executor)
	case !b.AllowsSet(set):
		return run.Errorf(run.CodeForbidden, "token %s is not bound to set %s and may not be its member", subject(c), set)
	}
	return nil
}

// handed reports whether the key was handed to the executor, as far as anybody
// knows: one whose token is bound proves it by a ticket, where the keys of the
// relays are known.
func (s *Server) handed(c echo.Context, body api.ClaimRequest) (bool, error) {
	b := principal(c).Binding
	switch {
	case !b.Bound() || s.keys == nil:
		return true, nil
	case body.Ticket == "":
		return false, nil
	case !s.keys.CheckTicket(b.Owner(), body.Key, body.Ticket):
		return false, run.Errorf(run.CodeForbidden, "the ticket does not prove that %s was handed to %s; "+
			"the relays and the gateways must have the same keys", body.Key, b.Owner())
	}
	return true, nil
}

// given is a text of an executor's call.
type given struct{ path, value string }

// need demands texts, each within bounds.
func need(texts ...given) error {
	var faults []run.Fault
	for _, t := range texts {
		if t.value == "" {
			faults = append(faults, run.Fault{Path: t.path, Code: run.CodeInvalid, Detail: t.path + " is missing"})
		}
	}
	if len(faults) == 0 {
		return bounded(texts...)
	}
	return run.InvalidError("the body is not complete", faults)
}

// bounded refuses texts that are too long: the records keep them.
func bounded(texts ...given) error {
	var faults []run.Fault
	for _, t := range texts {
		if len(t.value) > run.MaxExpandedName {
			faults = append(faults, run.Fault{
				Path: t.path, Code: run.FaultOverLimit, Detail: fmt.Sprintf("%s has %d bytes; the limit is %d", t.path, len(t.value), run.MaxExpandedName),
			})
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return run.InvalidError("the body is over its limits", faults)
}

// checkRegistration bounds what an executor says of itself.
func checkRegistration(r api.Registration) error {
	if err := need(given{"id", r.ID}, given{"journal_id", r.JournalID}, given{"pool", r.Pool}, given{"driver", r.Driver}); err != nil {
		return err
	}
	if len(r.Labels) > run.MaxPoolLabels {
		return run.Errorf(run.CodeInvalid, "an executor has at most %d labels, not %d", run.MaxPoolLabels, len(r.Labels))
	}
	texts := []given{{"os", r.OS}, {"arch", r.Arch}, {"version", r.Version}, {"set", r.Set}}
	for name, value := range r.Labels {
		if len(value) > run.MaxLabelBytes {
			return run.Errorf(run.CodeInvalid, "a label of an executor has at most %d bytes, not %d", run.MaxLabelBytes, len(value))
		}
		texts = append(texts, given{"labels", name})
	}
	if r.Slots < 1 {
		return run.Errorf(run.CodeInvalid, "an executor has at least 1 slot, not %d", r.Slots)
	}
	return bounded(texts...)
}
