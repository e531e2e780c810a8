package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// ListRuns implements ServerInterface.
func (s *Server) ListRuns(c echo.Context, params api.ListRunsParams) error {
	q, err := listQuery(params)
	if err != nil {
		return err
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
		ChangeGroups: params.Changegroup, TokenFor: params.TokenFor,
	}
	if err := errors.Join(checkNames("changegroup", params.Changegroup), checkNames("token_for", params.TokenFor)); err != nil {
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
	if len(faults) > 0 {
		return q, run.InvalidError(faults[0].Detail, faults)
	}
	return q, nil
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
