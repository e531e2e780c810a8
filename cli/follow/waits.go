package follow

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// waitGroup is queued tasks that wait for the same cause.
type waitGroup struct {
	cause string
	// next is what the reason of the task that is first in the queue says beyond the
	// cause, such as its position.
	next  string
	names []string
}

// waits groups the queued tasks by the cause of their reasons: the text before the
// semicolon, after which a reason has what is true of one task only. The largest
// group is first.
func (m *model) waits() []waitGroup {
	groups := make(map[string]*waitGroup)
	for _, t := range m.tasks {
		if t.status != run.StatusQueued {
			continue
		}
		cause, detail, _ := strings.Cut(t.reason, "; ")
		g := groups[cause]
		if g == nil {
			g = &waitGroup{cause: cause, next: detail}
			groups[cause] = g
		}
		// Of two numbers in the same words, the shorter text has the smaller one.
		if cmp.Or(cmp.Compare(len(detail), len(g.next)), cmp.Compare(detail, g.next)) < 0 {
			g.next = detail
		}
		g.names = append(g.names, t.name)
	}
	sorted := make([]waitGroup, 0, len(groups))
	for _, g := range groups {
		sorted = append(sorted, *g)
	}
	slices.SortFunc(sorted, func(a, b waitGroup) int {
		return cmp.Or(cmp.Compare(len(b.names), len(a.names)), cmp.Compare(a.cause, b.cause))
	})
	return sorted
}

// varying is what changes in the details of a fleet while its state does not: numbers
// and ages.
var varying = regexp.MustCompile(`[0-9]+( (s|min|h)\b)?`)

// kind is the same as long as the tasks wait for the same: the cause, and the states of
// the fleets that are to help, without numbers.
func (g waitGroup) kind() string {
	kind := []string{g.cause}
	for part := range strings.SplitSeq(g.next, "; ") {
		if strings.Contains(part, "fleet ") {
			kind = append(kind, varying.ReplaceAllLiteralString(part, "#"))
		}
	}
	return strings.Join(kind, "; ")
}

// reason returns the reason of the group, which is that of its task if it has one
// only.
func (g waitGroup) reason() string {
	switch {
	case g.next == "":
		return g.cause
	case len(g.names) == 1:
		return g.cause + "; " + g.next
	}
	return g.cause + "; the next one: " + g.next
}
