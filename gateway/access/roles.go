package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/gateway/openapi"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

// resource says where the group of an operation comes from.
type resource int

const (
	// ofAll: the operation concerns all groups.
	ofAll resource = iota
	// ofCaller: the operation concerns the caller alone.
	ofCaller
	// ofRun: the group is that of the run with the parameter id.
	ofRun
	// ofSchedule: the group is that of the schedule with the parameter name.
	ofSchedule
	// ofFleet: the groups are those of the fleet with the parameter name.
	ofFleet
	// ofSome: the permission in any group is enough to call the handler, which checks the
	// groups of its parameters or its body, and filters what it returns.
	ofSome
)

// rule is what an operation needs of a principal with roles.
type rule struct {
	need roles.Permission
	of   resource
}

// rules has every operation for which the contract requires a token. A principal with
// roles may call no other, and none that is for executors.
func rules() map[string]rule {
	return map[string]rule{
		"createRun":    {roles.Submit, ofSome},
		"validateSpec": {roles.Submit, ofSome},
		"listRuns":     {roles.View, ofSome},
		"deleteRuns":   {roles.Administer, ofSome},

		"getRun":              {roles.View, ofRun},
		"getRunSpec":          {roles.View, ofRun},
		"deleteRun":           {roles.Administer, ofRun},
		"restartRun":          {roles.Submit, ofRun}, // the handler checks a new specification
		"planRestart":         {roles.Submit, ofRun}, // as for restartRun
		"startRun":            {roles.Submit, ofRun},
		"cancelRun":           {roles.Submit, ofRun},
		"stopRun":             {roles.Submit, ofRun},
		"putRunAnnotations":   {roles.Submit, ofRun},
		"putTaskAnnotations":  {roles.Submit, ofRun},
		"approveTask":         {roles.Approve, ofRun},
		"rejectTask":          {roles.Approve, ofRun},
		"execInTask":          {roles.Administer, ofRun},
		"getTaskLogs":         {roles.View, ofRun},
		"getTaskLogIndex":     {roles.View, ofRun},
		"searchTaskLog":       {roles.View, ofRun},
		"listArtifacts":       {roles.View, ofRun},
		"getArtifact":         {roles.View, ofRun},
		"listArtifactEntries": {roles.View, ofRun},

		"listApprovals": {roles.View, ofSome},
		"listGroups":    {roles.View, ofSome},
		"streamEvents":  {roles.View, ofSome},

		"listChangeGroups": {roles.View, ofAll},
		"getChangeGroup":   {roles.View, ofAll},
		"putChangeGroup":   {roles.Operate, ofAll},

		"listSchedules":    {roles.View, ofSome},
		"getSchedule":      {roles.View, ofSchedule},
		"putSchedule":      {roles.Submit, ofSome},
		"deleteSchedule":   {roles.Submit, ofSchedule},
		"pauseSchedule":    {roles.Submit, ofSchedule},
		"resumeSchedule":   {roles.Submit, ofSchedule},
		"triggerSchedule":  {roles.Submit, ofSchedule},
		"backfillSchedule": {roles.Submit, ofSchedule},

		"listWebhooks":  {roles.Administer, ofAll},
		"getWebhook":    {roles.Administer, ofAll},
		"putWebhook":    {roles.Administer, ofAll},
		"deleteWebhook": {roles.Administer, ofAll},
		"testWebhook":   {roles.Administer, ofAll},

		"listExecutors":  {roles.View, ofAll},
		"getExecutor":    {roles.View, ofAll},
		"drainExecutor":  {roles.Operate, ofAll},
		"removeExecutor": {roles.Operate, ofAll},

		"listPools":  {roles.View, ofSome},
		"getPool":    {roles.View, ofSome},
		"putPool":    {roles.Administer, ofAll},
		"deletePool": {roles.Administer, ofAll},

		"listFleets":         {roles.View, ofSome},
		"getFleet":           {roles.View, ofFleet},
		"listFleetInstances": {roles.View, ofFleet},
		"listFleetEvents":    {roles.View, ofFleet},
		"getFleetRollout":    {roles.View, ofFleet},
		"pauseFleet":         {roles.Operate, ofFleet},
		"resumeFleet":        {roles.Operate, ofFleet},
		"drainFleet":         {roles.Operate, ofFleet},
		"scaleFleet":         {roles.Operate, ofFleet},
		"undoFleetRollout":   {roles.Operate, ofFleet},
		"pauseFleetRollout":  {roles.Operate, ofFleet},
		"resumeFleetRollout": {roles.Operate, ofFleet},
		"putFleet":           {roles.Administer, ofAll},
		"deleteFleet":        {roles.Administer, ofAll},

		"getSession": {roles.View, ofCaller},
		"getLinks":   {roles.View, ofCaller},
		"getVersion": {roles.View, ofCaller},

		"listAuditRecords":   {roles.Administer, ofAll},
		"exportAuditRecords": {roles.Administer, ofAll},

		"listTokens":  {roles.Administer, ofAll},
		"createToken": {roles.Administer, ofAll},
		"revokeToken": {roles.Administer, ofAll},

		"listRoleGrants":   {roles.Administer, ofAll},
		"getRoleGrants":    {roles.Administer, ofAll},
		"putRoleGrants":    {roles.Administer, ofAll},
		"deleteRoleGrants": {roles.Administer, ofAll},

		"getRetention":     {roles.View, ofAll},
		"previewRetention": {roles.View, ofAll},
		"getMetrics":       {roles.View, ofAll},
		"decode":           {roles.View, ofAll},
		"encode":           {roles.Submit, ofAll},
	}
}

// Resources finds the groups of resources. Errors: not_found.
type Resources struct {
	Run      func(ctx context.Context, id run.ID) (string, error)
	Schedule func(ctx context.Context, name string) (string, error) // nil: there are no schedules
	// Fleet and Pool return what decides about the groups of a fleet.
	Fleet func(ctx context.Context, name string) (run.Fleet, error) // nil: there are no fleets
	Pool  func(ctx context.Context, name string) (run.Pool, error)
}

// Roles decides which operations a principal with roles may call.
type Roles struct {
	rules     map[string]rule
	resources Resources
}

// NewRoles returns the decisions for the operations of the contract.
func NewRoles(ops map[string]openapi.Operation, resources Resources) (*Roles, error) {
	r := &Roles{rules: rules(), resources: resources}
	for id, op := range ops {
		if _, known := r.rules[id]; !known && op.Scope != "" && op.Scope != tokens.Executor {
			return nil, fmt.Errorf("the operation %s has no rule for roles", id)
		}
	}
	return r, nil
}

// Call is a call of an operation, as far as it decides who may make it.
type Call struct {
	Operation openapi.Operation
	Run       run.ID // of the path, "" if it names none
	Name      string // of the path: that of a schedule or fleet
}

// admittedKey is the key of the admitted call in the context of a request.
const admittedKey = "drover.admitted"

// admitted is a call with the principal that may make it.
type admitted struct {
	call   Call
	caller tokens.Principal
}

// Admit is Check for the call of a request, which a Watcher may check again.
func (r *Roles) Admit(c echo.Context, op openapi.Operation, p tokens.Principal) error {
	call := Call{Operation: op, Run: run.ID(c.Param("id")), Name: c.Param("name")}
	if err := r.Check(c.Request().Context(), call, p); err != nil {
		return err
	}
	c.Set(admittedKey, admitted{call: call, caller: p})
	return nil
}

// Check refuses a call that the principal may not make, by its scopes or its roles.
func (r *Roles) Check(ctx context.Context, call Call, p tokens.Principal) error {
	if p.Restricted() {
		return r.check(ctx, call, p)
	}
	if !p.Allows(call.Operation.Scope) {
		return run.Errorf(run.CodeForbidden, "token %s does not have the scope %s", p.Name, call.Operation.Scope)
	}
	return nil
}

// Recheck is Check for a call that lasts, whose caller had other rights when it began. It
// also ends the call, with a LostError, if the groups have changed from which the operation
// selects what it returns.
func (r *Roles) Recheck(ctx context.Context, call Call, began, now tokens.Principal) error {
	if slices.Equal(began.Scopes, now.Scopes) && slices.EqualFunc(began.Roles, now.Roles, sameBinding) {
		return nil // without a look at the resource
	}
	if err := r.Check(ctx, call, now); err != nil {
		return err
	}
	before, _ := Within(began, "")
	if after, _ := Within(now, ""); r.rules[call.Operation.ID].of == ofSome && !slices.Equal(before, after) {
		return &LostError{Reason: run.Errorf(run.CodeUnavailable, "the groups that %s may see have changed: call again", now.Name)}
	}
	return nil
}

func sameBinding(a, b roles.Binding) bool {
	return a.Role == b.Role && slices.Equal(a.Groups, b.Groups)
}

// check refuses a call that a principal with roles may not make. A resource that it may
// not see is not found, just as one that does not exist.
func (r *Roles) check(ctx context.Context, call Call, p tokens.Principal) error {
	rule, known := r.rules[call.Operation.ID]
	switch {
	case !known:
		return run.Errorf(run.CodeForbidden, "token %s has roles in groups, and this call needs a token with the scope executor", p.Name)
	case rule.of == ofCaller:
		return nil
	case rule.of == ofAll:
		return Allow(p, rule.need, "")
	case rule.of == ofSome:
		if len(p.Roles.Paths(rule.need)) == 0 {
			return run.Errorf(run.CodeForbidden, "%s does not have %s in any group", p.Name, roles.Needs(rule.need))
		}
		return nil
	}
	switch rule.of { //nolint:exhaustive // the others are above
	case ofSchedule:
		return r.inSchedule(ctx, p, rule.need, call.Name)
	case ofFleet:
		return r.inFleet(ctx, p, rule.need, call.Name)
	}
	return r.InRun(ctx, p, rule.need, call.Run)
}

// InRun refuses a principal that may not see a run, or lacks a permission in its group.
// A principal without roles passes.
func (r *Roles) InRun(ctx context.Context, p tokens.Principal, need roles.Permission, id run.ID) error {
	if !p.Restricted() {
		return nil
	}
	group, err := r.resources.Run(ctx, id)
	if err != nil {
		return err
	}
	if !p.Roles.Allows(roles.View, group) {
		return run.Errorf(run.CodeNotFound, "there is no run %s", id)
	}
	return Allow(p, need, group)
}

// inSchedule refuses a principal that may not see a schedule, or lacks a permission in its
// group.
func (r *Roles) inSchedule(ctx context.Context, p tokens.Principal, need roles.Permission, name string) error {
	if r.resources.Schedule == nil {
		return nil // the handler says so
	}
	group, err := r.resources.Schedule(ctx, name)
	if err != nil {
		return err
	}
	if !p.Roles.Allows(roles.View, group) {
		return run.Errorf(run.CodeNotFound, "there is no schedule %s", name)
	}
	return Allow(p, need, group)
}

// AllowSchedule refuses to put a schedule whose runs the principal may not submit, or
// which belongs to others. All schedules share their names, so a new one begins with the
// path of a group of the principal: else the answer would tell which names others use.
func (r *Roles) AllowSchedule(ctx context.Context, p tokens.Principal, name string, s *run.Spec) error {
	if !p.Restricted() || r.resources.Schedule == nil {
		return nil
	}
	if s == nil {
		return run.Errorf(run.CodeInvalid, "a schedule has a specification")
	}
	if err := AllowSpec(p, s); err != nil {
		return err
	}
	group, err := r.resources.Schedule(ctx, name)
	switch {
	case err == nil && p.Roles.Allows(roles.View, group):
		return Allow(p, roles.Submit, group)
	case err != nil && run.CodeOf(err) != run.CodeNotFound:
		return err
	}
	var own []string
	for _, path := range p.Roles.Paths(roles.Submit) {
		prefix := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".") + "."
		if err != nil && (path == "" || strings.HasPrefix(name, prefix)) {
			return nil
		}
		own = append(own, prefix)
	}
	return run.Errorf(run.CodeForbidden, "%s may not put the schedule %s: the name of a new one begins with %s", p.Name, name, strings.Join(own, " or "))
}

// Allow refuses a principal that lacks a permission in a group; "" is what belongs to all
// groups. A principal without roles passes: its scopes are for all groups.
func Allow(p tokens.Principal, need roles.Permission, group string) error {
	if !p.Restricted() || p.Roles.Allows(need, group) {
		return nil
	}
	where := "in the group " + group
	if group == "" {
		where = "in all groups, /**"
	}
	return run.Errorf(run.CodeForbidden, "%s does not have %s %s", p.Name, roles.Needs(need), where)
}

// AllowSpec refuses a specification that the principal may not submit: its group, the
// groups with which it shares caches and persistent volumes, and those whose limits it names,
// must be those of the principal.
func AllowSpec(p tokens.Principal, s *run.Spec) error {
	if !p.Restricted() {
		return nil
	}
	if err := Allow(p, roles.Submit, s.Group); err != nil {
		return err
	}
	if err := AllowChangeGroups(p, roles.Submit, s.ChangeGroups); err != nil {
		return err
	}
	for name, t := range s.Tasks {
		if t == nil {
			continue // the service refuses it
		}
		if root := run.GroupRoot(s.Group); run.PersistentVolumes(t.Volumes) && !s.Untrusted && !p.Roles.Allows(roles.Submit, root) {
			return run.Errorf(run.CodeForbidden, "task %s has a persistent volume, which the runs in %s share, and %s does not have %s there: leave out its volumes with a name, or ask for the role",
				name, root, p.Name, roles.Needs(roles.Submit))
		}
		for _, step := range t.Steps {
			for _, scope := range cacheScopes(step, s.Group) {
				if !p.Roles.Allows(roles.Submit, scope) {
					return run.Errorf(run.CodeForbidden, "task %s has a cache of the scope %s, and %s does not have %s there: name a scope in its own groups",
						name, scope, p.Name, roles.Needs(roles.Submit))
				}
			}
		}
	}
	return nil
}

// AllowChangeGroups refuses a principal that names the change group of a path in which it
// lacks a permission. Such groups separate tenants: they count what happens below their
// paths. Other names belong to all groups.
func AllowChangeGroups(p tokens.Principal, need roles.Permission, names []string) error {
	if !p.Restricted() {
		return nil
	}
	for _, name := range names {
		if path, ofPath := run.ChangeGroupPath(name); ofPath && !p.Roles.Allows(need, path) {
			return run.Errorf(run.CodeForbidden, "the change group %s is that of a path, and %s does not have %s there", name, p.Name, roles.Needs(need))
		}
	}
	return nil
}

// cacheScopes returns the groups whose runs share the caches of a step.
func cacheScopes(step run.Step, group string) []string {
	var scopes []string
	if step.SaveCache != nil {
		scopes = append(scopes, run.CacheScopes(group, step.SaveCache.Scope, false)...)
	}
	if step.RestoreCache != nil {
		scopes = append(scopes, run.CacheScopes(group, step.RestoreCache.Scope, false)...)
	}
	return scopes
}

// Within returns the part of the groups at and below the given paths that a principal may
// see, as such paths, and whether there is any. No paths mean all groups, also in the
// result: that of a principal without roles is what was given.
func Within(p tokens.Principal, of ...string) (paths []string, some bool) {
	if !p.Restricted() {
		return of, true
	}
	paths = p.Roles.Within(roles.View, of)
	return paths, len(paths) > 0
}
