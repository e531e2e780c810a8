package follow

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// waitGroup is tasks that wait for the same cause, queued or for slots of change groups.
type waitGroup struct {
	status run.Status
	cause  string
	// next is what the reason of the task that is first in the queue says beyond the
	// cause, such as its position, and first the whole reason.
	next, first string
	names       []string
}

// waits groups the tasks that are queued, or wait for slots of change groups, by the
// causes of their reasons. The largest group is first.
func (m *model) waits() []waitGroup {
	type key struct {
		status run.Status
		cause  string
	}
	groups := make(map[key]*waitGroup)
	for _, t := range m.tasks {
		var cause, detail string
		switch t.status {
		case run.StatusQueued:
			// What follows the semicolon is true of one task only.
			cause, detail, _ = strings.Cut(t.reason, "; ")
		case run.StatusWaitingChangeGroup:
			cause, detail = slotsCause(t.reason)
		default:
			continue
		}
		g := groups[key{t.status, cause}]
		if g == nil {
			g = &waitGroup{status: t.status, cause: cause, next: detail, first: t.reason}
			groups[key{t.status, cause}] = g
		}
		// Of two numbers in the same words, the shorter text has the smaller one.
		if cmp.Or(cmp.Compare(len(detail), len(g.next)), cmp.Compare(detail, g.next)) < 0 {
			g.next, g.first = detail, t.reason
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

// slotsCause splits the reason of a task that waits for slots into its change groups, and
// its positions in their queues with those that hold their slots.
func slotsCause(reason string) (cause, detail string) {
	parts := strings.Split(reason, "; ")
	details := slices.Clone(parts)
	for i, part := range parts {
		if group, rest, ok := strings.Cut(part, ": position "); ok {
			parts[i] = group
			if len(parts) == 1 {
				details[i] = "position " + rest
			}
		} else {
			return reason, "" // it is about to get its slots
		}
	}
	details[0] = strings.TrimPrefix(details[0], "waits for ")
	return strings.Join(parts, "; "), strings.Join(details, "; ")
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
		return g.first
	}
	return g.cause + "; the next one: " + g.next
}
