package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// CreateRun implements ServerInterface.
func (s *Server) CreateRun(c echo.Context, params api.CreateRunParams) error {
	data, media, err := s.readBody(c)
	if err != nil {
		return err
	}
	parsed, text, err := readRequest(c.Request().Context(), data, media)
	if err != nil {
		return err
	}
	if err := access.AllowSpec(principal(c), parsed); err != nil {
		return err
	}
	token, err := readToken(c, text, roles.Submit)
	if err != nil {
		return err
	}
	if err := checkIdempotencyKey(c, params.IdempotencyKey); err != nil {
		return err
	}
	return s.writeCreated(c, func(ctx context.Context) (run.Run, error) {
		return s.runs.Create(ctx, run.CreateRequest{Spec: parsed, Subject: subject(c), Token: token, IdempotencyKey: params.IdempotencyKey})
	})
}

// ValidateSpec implements ServerInterface.
func (s *Server) ValidateSpec(c echo.Context) error {
	data, media, err := s.readBody(c)
	if err != nil {
		return err
	}
	format := spec.FormatYAML
	if media == mediaJSON {
		format = spec.FormatJSON
	}
	parser := spec.Parser{Extra: map[string]*string{"changegroup_token": new("")}, NoInputs: true}
	parsed, err := parser.ValidateContext(c.Request().Context(), data, format)
	if err != nil {
		return err
	}
	x, faults := spec.Expand(parsed, nil)
	if len(faults) > 0 {
		return run.InvalidError("the specification is not valid", spec.Locate(faults, data, format))
	}
	v := api.Validation{Name: parsed.Name, Group: parsed.Group, Tasks: len(x.Tasks), Inputs: make(map[string]api.Input, len(parsed.Inputs))}
	for name, in := range parsed.Inputs {
		v.Inputs[name] = viewInput(in)
	}
	for _, f := range spec.Warnings(data, format) {
		v.Warnings = append(v.Warnings, api.Fault{Path: f.Path, Line: f.Line, Code: string(f.Code), Detail: f.Detail})
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// viewInput makes the default type explicit.
func viewInput(in run.Input) api.Input {
	return api.Input{
		Type: api.InputType(cmp.Or(in.Type, run.InputString)), Default: in.Default, Options: in.Options, Required: in.Required,
		Description: in.Description, Pattern: in.Pattern,
	}
}

// GetRun implements ServerInterface.
func (s *Server) GetRun(c echo.Context, id api.RunID, params api.GetRunParams) error {
	if err := checkTokenFor(c, params.TokenFor); err != nil {
		return err
	}
	r, err := s.runs.Get(c.Request().Context(), run.ID(id), params.TokenFor...)
	if err != nil {
		return err
	}
	return renderIfChanged(c, params.IfNoneMatch, r)
}

// StartRun implements ServerInterface.
func (s *Server) StartRun(c echo.Context, id api.RunID) error { return s.act(c, id, s.runs.Start) }

// CancelRun implements ServerInterface.
func (s *Server) CancelRun(c echo.Context, id api.RunID) error { return s.act(c, id, s.runs.Cancel) }

// StopRun implements ServerInterface.
func (s *Server) StopRun(c echo.Context, id api.RunID) error {
	var body api.RunStop
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	opts := run.StopOptions{Force: body.Force, CancelQueued: body.CancelQueued}
	return s.actWith(c, id, body.ChangegroupToken, roles.Submit, func(ctx context.Context, id run.ID, token run.Token) (run.Run, error) {
		return s.runs.Stop(ctx, id, opts, token)
	})
}

// ApproveTask implements ServerInterface.
func (s *Server) ApproveTask(c echo.Context, id api.RunID, task api.TaskName) error {
	var body api.TaskApprove
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	return s.actWith(c, id, body.ChangegroupToken, roles.Approve, func(ctx context.Context, id run.ID, token run.Token) (run.Run, error) {
		return s.runs.Approve(run.WithComment(ctx, body.Comment), id, task, subject(c), token)
	})
}

// RejectTask implements ServerInterface.
func (s *Server) RejectTask(c echo.Context, id api.RunID, task api.TaskName) error {
	var body api.Rejection
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	token, err := readToken(c, body.ChangegroupToken, roles.Approve)
	if err != nil {
		return err
	}
	r, err := s.runs.Reject(c.Request().Context(), run.ID(id), task, subject(c), body.Reason, token)
	if err != nil {
		return err
	}
	return renderRun(c, http.StatusOK, r)
}

// ListApprovals implements ServerInterface.
func (s *Server) ListApprovals(c echo.Context, params api.ListApprovalsParams) error {
	q := run.ApprovalQuery{Group: params.Group, After: params.After}
	if q.Group != "" {
		if faults := checkGroup("group", q.Group); len(faults) > 0 {
			return run.InvalidError(faults[0].Detail, faults)
		}
	}
	if params.Limit != nil {
		q.Limit = *params.Limit
	}
	var some bool
	if q.Within, some = access.Within(principal(c)); !some {
		return writeJSON(c, http.StatusOK, mediaJSON, api.ApprovalPage{Approvals: []api.Approval{}})
	}
	page, err := s.runs.Approvals(c.Request().Context(), q)
	if err != nil {
		return err
	}
	v := api.ApprovalPage{Approvals: make([]api.Approval, len(page.Approvals)), NextAfter: page.After}
	for i, w := range page.Approvals {
		v.Approvals[i] = api.Approval{
			Run: string(w.Run), RunName: w.RunName, Group: w.Group, Task: w.Task, Approvers: w.Approval.Approvers,
			ApprovedBy: listOf(w.ApprovedBy), From: w.Approval.From, WaitingSince: w.Since.UTC(), ExpiresAt: w.Due.UTC(),
		}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// GetRunSpec implements ServerInterface.
func (s *Server) GetRunSpec(c echo.Context, id api.RunID) error {
	spec, err := s.runs.Spec(c.Request().Context(), run.ID(id))
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, mediaJSON, spec)
}

// act makes a call whose only argument is an update token, and answers with the
// run.
func (s *Server) act(c echo.Context, id string, call func(context.Context, run.ID, run.Token) (run.Run, error)) error {
	var body api.RunAction
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	return s.actWith(c, id, body.ChangegroupToken, roles.Submit, call)
}

// actWith is act for a call whose body was read, and which needs a permission.
func (s *Server) actWith(
	c echo.Context, id, text string, need roles.Permission, call func(context.Context, run.ID, run.Token) (run.Run, error),
) error {
	token, err := readToken(c, text, need)
	if err != nil {
		return err
	}
	r, err := call(c.Request().Context(), run.ID(id), token)
	if err != nil {
		return err
	}
	return renderRun(c, http.StatusOK, r)
}

// PutRunAnnotations implements ServerInterface.
func (s *Server) PutRunAnnotations(c echo.Context, id api.RunID, params api.PutRunAnnotationsParams) error {
	return s.annotate(c, id, "", params.ChangegroupToken)
}

// PutTaskAnnotations implements ServerInterface.
func (s *Server) PutTaskAnnotations(c echo.Context, id api.RunID, task api.TaskName, params api.PutTaskAnnotationsParams) error {
	return s.annotate(c, id, task, params.ChangegroupToken)
}

func (s *Server) annotate(c echo.Context, id, task, text string) error {
	token, err := readToken(c, text, roles.Submit)
	if err != nil {
		return err
	}
	var annotations map[string]string
	if err := s.decode(c, &annotations, strict); err != nil {
		return err
	}
	if annotations == nil {
		return run.Errorf(run.CodeInvalid, "the body must be an object of strings; {} removes all annotations")
	}
	r, err := s.runs.Annotate(c.Request().Context(), run.ID(id), task, annotations, token)
	if err != nil {
		return err
	}
	return renderRun(c, http.StatusOK, r)
}

// ListRuns implements ServerInterface.
func (s *Server) ListRuns(c echo.Context, params api.ListRunsParams) error {
	q, err := listQuery(params)
	if err != nil {
		return err
	}
	if params.Mine != nil && *params.Mine {
		if len(q.CreatedBy) > 0 {
			return invalidParameter("mine", "mine and created_by exclude each other")
		}
		q.CreatedBy = []string{subject(c)}
	}
	if err := checkTokenFor(c, params.TokenFor); err != nil {
		return err
	}
	var some bool
	if q.Groups, some = access.Within(principal(c), q.Groups...); !some {
		return writeJSON(c, http.StatusOK, mediaJSON, api.RunPage{Runs: []api.Run{}})
	}
	page, err := s.runs.List(c.Request().Context(), q)
	if err != nil {
		return err
	}
	v := api.RunPage{Runs: make([]api.Run, len(page.Runs)), NextCursor: page.Next, PrevCursor: page.Prev, ChangegroupToken: page.Token.String()}
	for i, r := range page.Runs {
		r.Tasks = nil
		v.Runs[i] = viewRun(r)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// listQuery converts parameters, whose values were checked against the contract,
// to a query.
func listQuery(params api.ListRunsParams) (run.ListQuery, error) {
	q := run.ListQuery{
		Phases: convert[run.Phase](params.Phase), Results: convert[run.Result](params.Result),
		Groups: params.Group, Cursor: params.Cursor, Ascending: params.Order == api.OrderAsc,
		ChangeGroups: params.Changegroup, TokenFor: params.TokenFor, Names: params.Name, CreatedBy: params.CreatedBy,
		Warnings: params.Warnings != nil && *params.Warnings,
	}
	if err := checkNames("changegroup", params.Changegroup); err != nil {
		return q, err
	}
	if params.Limit != nil {
		q.Limit = *params.Limit
	}
	// Values of one key are alternatives: the widest bound holds.
	if len(params.CreatedAfter) > 0 {
		q.CreatedAfter = slices.MinFunc(params.CreatedAfter, time.Time.Compare)
	}
	if len(params.CreatedBefore) > 0 {
		q.CreatedBefore = slices.MaxFunc(params.CreatedBefore, time.Time.Compare)
	}
	var faults []run.Fault
	for _, g := range params.Group {
		faults = append(faults, checkGroup("group", g)...)
	}
	for _, a := range params.Annotation {
		key, value, found := strings.Cut(a, "=")
		if !found || key == "" {
			faults = append(faults, run.Fault{
				Path: "annotation", Code: run.CodeInvalid,
				Detail: fmt.Sprintf("annotation must be key=value, not %q", a),
			})
		}
		q.Annotations = append(q.Annotations, run.Annotation{Key: key, Value: value})
	}
	var bad []run.Fault
	q.Inputs, bad = inputValues(params.Input)
	if faults = append(faults, bad...); len(faults) > 0 {
		return q, run.InvalidError(faults[0].Detail, faults)
	}
	return q, nil
}

func inputValues(params []string) (values []run.InputValue, faults []run.Fault) {
	add := func(format string, args ...any) {
		faults = append(faults, run.Fault{Path: "input", Code: run.CodeInvalid, Detail: fmt.Sprintf(format, args...)})
	}
	for _, in := range params {
		name, value, found := strings.Cut(in, "=")
		switch {
		case !found || name == "":
			add("input must be name=value, not %q", in)
		case len(value) > run.MaxInputFilter:
			add("the value of input %s has %d bytes; runs are found by values of at most %d", name, len(value), run.MaxInputFilter)
		}
		values = append(values, run.InputValue{Name: name, Value: value})
	}
	return values, faults
}

func checkGroup(parameter, group string) []run.Fault {
	if strings.HasPrefix(group, "/") {
		return nil
	}
	return []run.Fault{{
		Path: parameter, Code: run.CodeInvalid,
		Detail: fmt.Sprintf("%s must be an absolute path such as /project/42, not %q", parameter, group),
	}}
}

// convert converts a slice of one string type to another.
func convert[To, From ~string](list []From) []To {
	var out []To
	for _, v := range list {
		out = append(out, To(v))
	}
	return out
}
