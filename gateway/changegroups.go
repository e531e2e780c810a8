package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
)

// ListChangeGroups implements ServerInterface.
func (s *Server) ListChangeGroups(c echo.Context, params api.ListChangeGroupsParams) error {
	q := run.ChangeGroupQuery{Names: params.Name, After: params.After}
	if params.Limit != nil {
		q.Limit = *params.Limit
	}
	if err := checkNames("name", params.Name); err != nil {
		return err
	}
	if len(q.Names) > 0 && (q.After != "" || params.Limit != nil) {
		return invalidParameter("after", "groups selected by name are returned in one page: leave out after and limit")
	}
	groups, token, err := s.runs.ChangeGroups(c.Request().Context(), q)
	if err != nil {
		return err
	}
	v := api.ChangeGroupPage{Changegroups: make([]api.ChangeGroup, len(groups)), ChangegroupToken: token.String()}
	for i, g := range groups {
		v.Changegroups[i] = viewChangeGroup(g)
	}
	if n := len(groups); len(q.Names) == 0 && n > 0 && n == limitOf(params.Limit) {
		v.NextAfter = groups[n-1].Name
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// pageSize is the default number of items of a page.
const pageSize = 25

func limitOf(given *int) int {
	if given == nil {
		return pageSize
	}
	return *given
}

// GetChangeGroup implements ServerInterface.
func (s *Server) GetChangeGroup(c echo.Context, name string) error {
	if err := checkNames("name", []string{name}); err != nil {
		return err
	}
	groups, token, err := s.runs.ChangeGroups(c.Request().Context(), run.ChangeGroupQuery{Names: []string{name}})
	if err != nil {
		return err
	}
	if len(groups) != 1 || groups[0].Version == 0 {
		return run.Errorf(run.CodeNotFound, "change group %s does not exist: no run has named it, and its limit was never set", name)
	}
	return renderChangeGroup(c, groups[0], token)
}

// PutChangeGroup implements ServerInterface.
func (s *Server) PutChangeGroup(c echo.Context, name string) error {
	if err := checkNames("name", []string{name}); err != nil {
		return err
	}
	var body struct {
		api.ChangeGroupSpec

		MaxRunning *int `json:"max_running"` // a pointer, to distinguish 0 (no limit) from a missing value
	}
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	g := run.ChangeGroup{Name: name, OnBusy: cmp.Or(run.OnBusy(body.OnBusy), run.OnBusyQueue)}
	if body.MaxRunning != nil {
		g.MaxRunning = *body.MaxRunning
	}
	if err := checkChangeGroup(g, body.MaxRunning != nil); err != nil {
		return err
	}
	token, err := readToken(c, body.ChangegroupToken, roles.Operate)
	if err != nil {
		return err
	}
	g, token, err = s.runs.PutChangeGroup(c.Request().Context(), g, token)
	if err != nil {
		return err
	}
	return renderChangeGroup(c, g, token)
}

// maxSlots is the highest limit: far above any real number of concurrent runs,
// and in the range of all stores.
const maxSlots = 1_000_000

func checkChangeGroup(g run.ChangeGroup, limited bool) error {
	var faults []run.Fault
	add := func(path string, code run.Code, format string, args ...any) {
		faults = append(faults, run.Fault{Path: path, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
	switch {
	case !limited:
		add("max_running", run.FaultRequired, "max_running is missing; 0 is no limit")
	case g.MaxRunning < 0 || g.MaxRunning > maxSlots:
		add("max_running", run.FaultOutOfRange, "max_running must be from 0, which is no limit, to %d, not %d", maxSlots, g.MaxRunning)
	}
	if !slices.Contains(run.OnBusyPolicies(), g.OnBusy) {
		add("on_busy", run.FaultBadValue, "on_busy must be one of %v, not %q", run.OnBusyPolicies(), g.OnBusy)
	}
	if len(faults) > 0 {
		return run.InvalidError(faults[0].Detail, faults)
	}
	return nil
}

func renderChangeGroup(c echo.Context, g run.ChangeGroup, token run.Token) error {
	v := viewChangeGroup(g)
	v.ChangegroupToken = token.String()
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

func viewChangeGroup(g run.ChangeGroup) api.ChangeGroup {
	return api.ChangeGroup{
		Name: g.Name, MaxRunning: g.MaxRunning, OnBusy: api.OnBusy(g.OnBusy),
		Running: listOf(convert[string](g.Running)), Queued: listOf(convert[string](g.Queued)),
		HoldingTasks: viewTaskSlots(g.HoldingTasks), WaitingTasks: viewTaskSlots(g.WaitingTasks),
		Held: &g.Held, Waiting: &g.Waiting,
	}
}

func viewTaskSlots(list []run.TaskSlots) []api.TaskSlots {
	var out []api.TaskSlots
	for _, x := range list {
		out = append(out, api.TaskSlots{Run: string(x.Run), Task: x.Task, Units: x.Units})
	}
	return out
}

// checkNames returns an error for too many names, or for one that no change group
// can have.
func checkNames(parameter string, names []string) error {
	if len(names) > run.MaxChangeGroups {
		return invalidParameter(parameter, fmt.Sprintf("%s may be given %d times, not %d", parameter, run.MaxChangeGroups, len(names)))
	}
	for _, name := range names {
		if fault := run.CheckChangeGroupName(name); fault != "" {
			return invalidParameter(parameter, fault)
		}
	}
	return nil
}

// readToken reads the update token of a call that needs a permission. The call changes the
// versions of all groups of the token, so the caller must have the permission in the path
// of each change group of a path.
func readToken(c echo.Context, text string, need roles.Permission) (run.Token, error) {
	token, err := run.ParseToken(text)
	if err != nil {
		return nil, err
	}
	return token, access.AllowChangeGroups(principal(c), need, token.Groups())
}

// checkTokenFor checks the change groups whose versions a caller asks for. They tell how
// much happens in a group.
func checkTokenFor(c echo.Context, names []string) error {
	if err := checkNames("token_for", names); err != nil {
		return err
	}
	return access.AllowChangeGroups(principal(c), roles.View, names)
}

func invalidParameter(name, detail string) error {
	return run.InvalidError(detail, []run.Fault{{Path: name, Code: run.CodeInvalid, Detail: detail}})
}

// ListGroups implements ServerInterface.
func (s *Server) ListGroups(c echo.Context, params api.ListGroupsParams) error {
	q := run.GroupQuery{Paths: params.Path, Under: params.Under, After: params.After}
	if params.Limit != nil {
		q.Limit = *params.Limit
	}
	var faults []run.Fault
	for _, path := range params.Path {
		faults = append(faults, checkGroup("path", path)...)
	}
	if q.Under != "" {
		faults = append(faults, checkGroup("under", q.Under)...)
	}
	if len(faults) > 0 {
		return run.InvalidError(faults[0].Detail, faults)
	}
	switch {
	case len(q.Paths) > maxPaths:
		return invalidParameter("path", fmt.Sprintf("path may be given %d times, not %d", maxPaths, len(q.Paths)))
	case len(q.Paths) > 0 && (q.Under != "" || q.After != "" || params.Limit != nil):
		return invalidParameter("path", "groups selected by path are returned in one page: leave out under, after and limit")
	}
	var some bool
	if q.Within, some = access.Within(principal(c)); !some {
		return writeJSON(c, http.StatusOK, mediaJSON, api.GroupPage{Groups: []api.Group{}})
	}
	page, err := s.runs.Groups(c.Request().Context(), q)
	if err != nil {
		return err
	}
	v := api.GroupPage{Groups: make([]api.Group, len(page.Groups)), NextAfter: page.After}
	for i, g := range page.Groups {
		v.Groups[i] = api.Group{Path: g.Path, Queued: g.Queued, Running: g.Running}
		if g.Last != nil {
			last := viewRun(*g.Last)
			v.Groups[i].LastRun = &last
		}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

const maxPaths = 100
