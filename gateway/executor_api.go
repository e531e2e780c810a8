package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// requireExecutorAPI returns the executor API, or an error if the gateway does not
// serve executors.
func (s *Server) requireExecutorAPI() (run.ExecutorAPI, error) {
	if s.executorAPI == nil {
		return nil, run.Errorf(run.CodeNotSupported, "this gateway does not serve executors")
	}
	return s.executorAPI, nil
}

// headerExecutorState names the response header that reports to an executor that
// it was removed. The code forbidden alone would not: a token without the scope
// is forbidden too, and an executor that believes it was removed ends its tasks.
const headerExecutorState = "Drover-Executor-State"

// headerToken names the response header with a new short-lived token. The executor
// replaces its expiring token with it.
const headerToken = "Drover-Token"

// expiring reports whether half of the lifetime of the caller's short-lived token
// has passed, so that the gateway replaces it.
func (s *Server) expiring(c echo.Context) bool {
	p := principal(c)
	return !p.Expires.IsZero() && s.keys != nil && time.Since(p.IssuedAt) >= p.Expires.Sub(p.IssuedAt)/2
}

// renewToken adds a new short-lived token to the answer to a heartbeat. The token of
// an executor never expires as long as the executor renews its registration, is
// not removed, and its fleet has its instance.
func (s *Server) renewToken(c echo.Context, w run.DesiredState) {
	p := principal(c)
	b := p.Binding
	if b.Fleet == "" { // no fleet, or a token of a version that did not record the fleet
		b.Fleet, b.Instance = w.Fleet, w.Instance
	}
	if w.Gone || b.Fleet != w.Fleet || b.Instance != w.Instance {
		s.logger.DebugContext(c.Request().Context(), "did not renew short-lived token: the instance is gone", "executor", p.Name, "fleet", b.Fleet, "instance", b.Instance)
		return
	}
	shortLived, err := s.keys.IssueShortLived(b, time.Now(), p.Expires.Sub(p.IssuedAt))
	if err != nil {
		s.logger.WarnContext(c.Request().Context(), "failed to create short-lived token", "executor", p.Name, "error", err)
		return
	}
	c.Response().Header().Set(headerToken, shortLived)
}

// fleetOf returns the fleet and the instance of an executor that registers. The
// binding of its token proves both. Labels of the executor count in two cases
// only: a token that is not bound is trusted with fleet and instance, and a token
// that the instances of a fleet share is trusted with the instance. Errors:
// invalid.
func fleetOf(c echo.Context, labels map[string]string) (fleet, instance string, err error) {
	b := principal(c).Binding
	switch {
	case !b.Bound():
		return labels[run.LabelFleet], labels[run.LabelInstance], nil
	case b.Fleet == "" || b.Instance != "":
		return b.Fleet, b.Instance, nil
	case labels[run.LabelInstance] == "":
		return "", "", run.Errorf(run.CodeInvalid, "token %s is bound to fleet %s: the label %s must name the instance of the executor",
			subject(c), b.Fleet, run.LabelInstance)
	}
	return b.Fleet, labels[run.LabelInstance], nil
}

// executorError adds a header to errors that mean that the executor was removed.
// Every error of a call of run.ExecutorAPI passes through executorError, and no other
// error does.
func executorError(c echo.Context, err error) error {
	if run.CodeOf(err) == run.CodeForbidden {
		c.Response().Header().Set(headerExecutorState, string(run.ExecutorRemoved))
	}
	return err
}

// writeDesired answers with the desired state of an executor.
func writeDesired(c echo.Context, w run.DesiredState, err error) error {
	if err != nil {
		return executorError(c, err)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, api.DesiredState{Drain: w.Drain, Labels: w.Labels, LabelsOnly: w.LabelsOnly, Slots: w.Slots})
}

// RegisterExecutor implements ServerInterface.
func (s *Server) RegisterExecutor(c echo.Context) error {
	var body api.Registration
	executorAPI, err := s.decodeExecutorCall(c, &body)
	if err != nil {
		return err
	}
	if err := checkRegistration(body); err != nil {
		return err
	}
	if err := checkBinding(c, body.ID, body.Set); err != nil {
		return err
	}
	if b := principal(c).Binding; !b.AllowsPool(body.Pool) {
		return run.Errorf(run.CodeForbidden, "token %s is bound to pool %s and may not serve pool %s", subject(c), b.Pool, body.Pool)
	}
	e := run.Executor{
		ID: body.ID, JournalID: body.JournalID, Pool: body.Pool, Driver: body.Driver, OS: body.OS, Arch: body.Arch,
		Labels: body.Labels, Privileged: body.Privileged, Slots: body.Slots, SlotsUsed: body.SlotsUsed, Version: body.Version,
		Features: body.Features, Set: body.Set, Temporary: body.Temporary,
	}
	if e.Fleet, e.Instance, err = fleetOf(c, body.Labels); err != nil {
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
	desired, err := executorAPI.Register(c.Request().Context(), e)
	return writeDesired(c, desired, err)
}

// RenewExecutor implements ServerInterface.
func (s *Server) RenewExecutor(c echo.Context) error {
	var body api.Renewal
	executorAPI, err := s.decodeExecutorCall(c, &body)
	if err != nil {
		return err
	}
	if err := requireFields(textField{"executor", body.Executor}, textField{"journal_id", body.JournalID}); err != nil {
		return err
	}
	if err := checkBinding(c, body.Executor, body.Set); err != nil {
		return err
	}
	expiring := s.expiring(c)
	desired, err := executorAPI.Renew(c.Request().Context(), run.Renewal{
		Executor: body.Executor, Set: body.Set, JournalID: body.JournalID, SlotsUsed: body.SlotsUsed, Draining: body.Draining,
		Drained: body.Drained, Expiring: expiring,
	})
	if err == nil && expiring {
		s.renewToken(c, desired)
	}
	return writeDesired(c, desired, err)
}

// ClaimTask implements ServerInterface.
func (s *Server) ClaimTask(c echo.Context) error {
	var body api.ClaimRequest
	executorAPI, err := s.decodeExecutorCall(c, &body)
	if err != nil {
		return err
	}
	err = requireFields(textField{"executor", body.Executor}, textField{"journal_id", body.JournalID}, textField{"key.run", string(body.Key.Run)})
	if err != nil {
		return err
	}
	if err := checkBinding(c, body.Executor, body.Set); err != nil {
		return err
	}
	if err := checkLengths(textField{"set", body.Set}); err != nil {
		return err
	}
	proven, err := s.checkClaimProof(c, body)
	if err != nil {
		return err
	}
	d, err := executorAPI.Claim(c.Request().Context(), run.ClaimRequest{
		Key: body.Key, Executor: body.Executor, Set: body.Set, JournalID: body.JournalID, SpecVersion: body.SpecVersion,
		Pool: principal(c).Binding.Pool, ReclaimOnly: !proven,
	})
	if err != nil {
		return executorError(c, err)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, d)
}

// AppendFrames implements ServerInterface.
func (s *Server) AppendFrames(c echo.Context) error {
	var body api.FrameBatch
	executorAPI, err := s.decodeExecutorCall(c, &body)
	if err != nil {
		return err
	}
	if err := requireFields(textField{"executor", body.Executor}, textField{"key.run", string(body.Key.Run)}); err != nil {
		return err
	}
	if err := checkBinding(c, body.Executor, ""); err != nil {
		return err
	}
	if len(body.Frames) == 0 {
		return run.Errorf(run.CodeInvalid, "a batch holds at least 1 frame")
	}
	if err := executorAPI.AppendFrames(c.Request().Context(), body); err != nil {
		return executorError(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// GetClaimStates implements ServerInterface.
func (s *Server) GetClaimStates(c echo.Context) error {
	var body api.ClaimStatesRequest
	executorAPI, err := s.decodeExecutorCall(c, &body)
	if err != nil {
		return err
	}
	if err := requireFields(textField{"executor", body.Executor}); err != nil {
		return err
	}
	if err := checkBinding(c, body.Executor, ""); err != nil {
		return err
	}
	if len(body.Keys) > run.MaxClaimKeys {
		return run.Errorf(run.CodeInvalid, "the request names %d claims; the limit is %d", len(body.Keys), run.MaxClaimKeys)
	}
	states, err := executorAPI.ClaimStates(c.Request().Context(), body.Executor, body.Keys)
	if err != nil {
		return executorError(c, err)
	}
	v := api.ClaimStates{States: make([]api.KeyState, len(body.Keys))}
	for i, key := range body.Keys {
		v.States[i] = api.KeyState{Key: key, State: api.KeyStateState(cmp.Or(states[key], run.ClaimUnknown))}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

func (s *Server) decodeExecutorCall(c echo.Context, v any) (run.ExecutorAPI, error) {
	executorAPI, err := s.requireExecutorAPI()
	if err != nil {
		return nil, err
	}
	return executorAPI, s.decode(c, v, lenient)
}

// checkBinding refuses a call for an executor, or for a member of an executor set, that
// the token is not bound to. The executor API does not return this error, so it
// never looks as if the executor was removed.
func checkBinding(c echo.Context, executor, set string) error {
	b := principal(c).Binding
	switch {
	case !b.AllowsExecutor(executor):
		return run.Errorf(run.CodeForbidden, "token %s is bound to executor %s and may not act as %s", subject(c), b.Executor, executor)
	case !b.AllowsSet(set):
		return run.Errorf(run.CodeForbidden, "token %s is not bound to set %s and may not be its member", subject(c), set)
	}
	return nil
}

// checkClaimProof reports whether the task was handed to the executor. A bound token
// proves it by a claim proof, if the gateway has the keys of the relays; in all
// other cases handed reports true.
func (s *Server) checkClaimProof(c echo.Context, body api.ClaimRequest) (bool, error) {
	b := principal(c).Binding
	switch {
	case !b.Bound() || s.keys == nil:
		return true, nil
	case body.ClaimProof == "":
		return false, nil
	case !s.keys.CheckClaimProof(b.Owner(), body.Key, body.ClaimProof):
		return false, run.Errorf(run.CodeForbidden, "the claim proof does not prove that %s was handed to %s; "+
			"the relays and the gateways must have the same keys", body.Key, b.Owner())
	}
	return true, nil
}

// textField is a text field of a request of an executor.
type textField struct{ path, value string }

// requireFields returns an error if a field is empty or too long.
func requireFields(texts ...textField) error {
	var faults []run.Fault
	for _, t := range texts {
		if t.value == "" {
			faults = append(faults, run.Fault{Path: t.path, Code: run.CodeInvalid, Detail: t.path + " is missing"})
		}
	}
	if len(faults) == 0 {
		return checkLengths(texts...)
	}
	return run.InvalidError("the body is incomplete", faults)
}

// checkLengths returns an error if a field is too long. The records store these
// fields.
func checkLengths(texts ...textField) error {
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
	return run.InvalidError("the body exceeds its limits", faults)
}

// checkRegistration checks the bounds of all fields of a registration.
func checkRegistration(r api.Registration) error {
	if err := requireFields(textField{"id", r.ID}, textField{"journal_id", r.JournalID}, textField{"pool", r.Pool}, textField{"driver", r.Driver}); err != nil {
		return err
	}
	if len(r.Labels) > run.MaxPoolLabels {
		return run.Errorf(run.CodeInvalid, "an executor has at most %d labels, not %d", run.MaxPoolLabels, len(r.Labels))
	}
	texts := []textField{{"os", r.OS}, {"arch", r.Arch}, {"version", r.Version}, {"set", r.Set}}
	for name, value := range r.Labels {
		if len(value) > run.MaxLabelBytes {
			return run.Errorf(run.CodeInvalid, "a label of an executor has at most %d bytes, not %d", run.MaxLabelBytes, len(value))
		}
		texts = append(texts, textField{"labels", name})
	}
	if r.Slots < 1 {
		return run.Errorf(run.CodeInvalid, "an executor has at least 1 slot, not %d", r.Slots)
	}
	return checkLengths(texts...)
}
