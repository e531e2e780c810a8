package roles

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/drover-run/drover/run"
)

// CheckGrants validates grants of a client. The paths of the faults begin with grants.
func CheckGrants(grants []run.RoleGrant) []run.Fault {
	var faults []run.Fault
	if len(grants) > run.MaxRoleGrants {
		faults = append(faults, run.Fault{
			Path: "grants", Code: run.FaultOverLimit, Detail: fmt.Sprintf("there are %d grants; the limit is %d", len(grants), run.MaxRoleGrants),
		})
	}
	for i, g := range grants {
		for _, f := range checkGrant(g) {
			f.Path = strings.TrimSuffix(fmt.Sprintf("grants[%d].%s", i, f.Path), ".")
			faults = append(faults, f)
		}
	}
	return faults
}

// checkGrant validates a grant. The paths of the faults begin with its keys.
func checkGrant(g run.RoleGrant) []run.Fault {
	var faults []run.Fault
	add := func(path string, code run.Code, format string, args ...any) {
		faults = append(faults, run.Fault{Path: path, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
	switch {
	case g.Subject == "" && g.Members == "":
		add("", run.FaultRequired, "a grant names either a user, as subject, or a group of users, as members")
	case g.Subject != "" && g.Members != "":
		add("", run.FaultContradiction, "a grant names either a user, as subject, or a group of users, as members, and not both")
	}
	for _, who := range []struct{ path, name string }{{"subject", g.Subject}, {"members", g.Members}} {
		switch {
		case len(who.name) > run.MaxRoleSubject:
			add(who.path, run.FaultOverLimit, "%s has %d bytes; the limit is %d", who.path, len(who.name), run.MaxRoleSubject)
		case strings.ContainsFunc(who.name, unicode.IsControl) || strings.TrimSpace(who.name) != who.name:
			add(who.path, run.FaultBadFormat, "%s %q has a control character, or a space at an end", who.path, who.name)
		}
	}
	switch {
	case g.Role == "":
		add("role", run.FaultRequired, "the role is missing: viewer, submitter, approver, operator or admin")
	case !slices.Contains(All(), Role(g.Role)):
		add("role", run.FaultBadValue, "%q is not a role: viewer, submitter, approver, operator or admin", g.Role)
	}
	switch {
	case len(g.Groups) == 0:
		add("groups", run.FaultRequired, "the groups are missing; /** is all of them")
	case len(g.Groups) > maxPatterns:
		add("groups", run.FaultOverLimit, "there are %d patterns of groups; the limit is %d", len(g.Groups), maxPatterns)
	}
	for i, pattern := range g.Groups {
		if _, err := run.GroupPattern(pattern); err != nil {
			add(fmt.Sprintf("groups[%d]", i), run.FaultBadFormat, "%s", err)
		}
	}
	return faults
}

// Prefixed returns why a grant must not name a user this way, or "": the name begins with
// gateway.oidc.subject_prefix, which Drover shows and the provider does not know. Only a
// prefix with a colon at its end is looked for: the provider's own names may begin with
// others, such as ci- or auth0|.
func Prefixed(name, prefix string) string {
	bare, ok := strings.CutPrefix(name, prefix)
	if !ok || bare == "" || !strings.HasSuffix(prefix, ":") {
		return ""
	}
	return fmt.Sprintf("the user is named as the provider does, without %s (gateway.oidc.subject_prefix): %s", prefix, bare)
}

// patternsOf returns how many patterns each user and each group of users gets by grants
// alone. The keys are those of the maps of an index.
func patternsOf(x index) (subjects, members map[string]int) {
	count := func(own map[string]Bindings) map[string]int {
		out := make(map[string]int, len(own))
		for name, b := range own {
			out[name] = patterns(slices.Concat(x.all, b))
		}
		return out
	}
	subjects = count(x.subjects)
	subjects[allSubjects] = patterns(x.all)
	return subjects, count(x.members)
}

// patterns counts the different patterns of each role, also those that others cover: the
// others may be withdrawn later, and a withdrawal is never refused.
func patterns(b Bindings) int {
	type bound struct {
		role    Role
		pattern string
	}
	all := map[bound]bool{}
	for _, one := range b {
		for _, pattern := range one.Groups {
			all[bound{one.Role, pattern}] = true
		}
	}
	return len(all)
}

// checkPatterns returns a fault for each user, and each group of users, that would get more
// patterns than a user may have, and so no access, if the grants after replaced those before.
func checkPatterns(before, after index, grants []run.RoleGrant) []run.Fault {
	var faults []run.Fault
	oldSubjects, oldMembers := patternsOf(before)
	subjects, members := patternsOf(after)
	check := func(kind, name string, old, n int) {
		if n <= maxPatterns || n <= old {
			return
		}
		i := slices.IndexFunc(grants, func(g run.RoleGrant) bool {
			return kind == "subject" && g.Subject == name || kind == "members" && g.Members == name
		})
		if i < 0 { // it has the grants of another list, and now those to all users
			i = slices.IndexFunc(grants, func(g run.RoleGrant) bool { return g.Subject == allSubjects })
		}
		who := "user " + name
		switch {
		case kind == "members":
			who = "each member of " + name
		case name == allSubjects:
			who = "every user"
		}
		faults = append(faults, run.Fault{Path: fmt.Sprintf("grants[%d].groups", i), Code: run.FaultOverLimit, Detail: fmt.Sprintf(
			"with the grants in force, %s would have %d patterns of groups, including patterns that others cover; the limit is %d", who, n, maxPatterns)})
	}
	for name, n := range subjects {
		check("subject", name, oldSubjects[name], n)
	}
	for name, n := range members {
		check("members", name, oldMembers[name], n)
	}
	slices.SortFunc(faults, func(a, b run.Fault) int { return strings.Compare(a.Path+a.Detail, b.Path+b.Detail) })
	return faults
}
