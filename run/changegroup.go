package run

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OnBusy is the policy for a run that is created or started while its change
// group has no free slot.
type OnBusy string

// The policies of a busy group.
const (
	OnBusyQueue OnBusy = "queue" // the run waits in the queue; the default
	// OnBusyStopRunning stops as many of the group's running runs as the new
	// run and those before it in the queue need; the runs that began first are
	// stopped first.
	OnBusyStopRunning OnBusy = "stop_running"
	// OnBusyCancelQueued cancels the runs that wait for a slot of the group, so
	// that the new run is next.
	OnBusyCancelQueued OnBusy = "cancel_queued"
	OnBusyReject       OnBusy = "reject" // the call fails with CodeChangeGroupBusy, and nothing is stored
)

// OnBusyPolicies lists all policies, the default first.
func OnBusyPolicies() []OnBusy {
	return []OnBusy{OnBusyQueue, OnBusyStopRunning, OnBusyCancelQueued, OnBusyReject}
}

// ChangeGroup limits how many of the runs that name it run at once. A group
// exists, without a limit, as soon as a run names it.
type ChangeGroup struct {
	Name       string
	MaxRunning int // 0 is no limit
	OnBusy     OnBusy
	// Running has the runs that hold a slot, in the order in which they got it.
	// A run holds its slot from when it may begin until it is final.
	Running []ID
	// Queued has the runs that wait for a slot, in queue order, and after them
	// the runs that wait to be started.
	Queued []ID
	// HoldingTasks has the tasks that hold slots of their own, in the order in which they got
	// them, and WaitingTasks those that wait for slots, in queue order: all of them come before
	// Queued. Each has the first MaxTaskSlots; nil for none.
	HoldingTasks, WaitingTasks []TaskSlots
	// Held is how many slots runs and tasks hold, and Waiting how many runs and tasks are
	// queued, also those that are not listed.
	Held, Waiting int
	// Version increases with every change of the group, or of the phase of one
	// of its runs, and with every call that changes one of its runs.
	Version int64
}

// MaxTaskSlots bounds the tasks that a change group lists, of those that hold slots and of those
// that wait: one run may have thousands.
const MaxTaskSlots = 1_000

// TaskSlots is a task that holds slots of a change group, or waits for them.
type TaskSlots struct {
	Run   ID
	Task  string // with the suffix of its expansion
	Units int    // how many slots
}

// TaskChangeGroup is a change group of a task. In a specification, it may be the name alone.
type TaskChangeGroup struct {
	Name string `json:"name"`
	// Units is how many slots of the group the task takes, 0 for one. If the group has fewer,
	// the task takes all of them.
	Units int `json:"units,omitempty"`
}

// ChangeGroupsOfTasks returns the names of the change groups that tasks name, sorted.
func (s *Spec) ChangeGroupsOfTasks() []string {
	var names []string
	for _, t := range s.Tasks {
		if t == nil {
			continue // not checked yet
		}
		for _, g := range t.ChangeGroups {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ChangeGroupQuery selects change groups: those of Names, also names that no
// run has used yet, or else all groups by name.
type ChangeGroupQuery struct {
	Names []string
	After string // without Names: groups with greater names
	Limit int    // without Names: 1 to 100; 0 means 25
}

// MaxTokenGroups is the most change groups of one token: the size of a page of
// change groups.
const MaxTokenGroups = 100

// Token is an update token: the versions of change groups as a client read
// them. A call that carries it succeeds only if none of the groups has changed
// since, and then changes all of them. A nil Token is no token.
type Token map[string]int64

// String returns the token in the form that clients pass, "" for none.
func (t Token) String() string {
	if len(t) == 0 {
		return ""
	}
	text, err := json.Marshal(tokenText{Versions: t})
	if err != nil {
		return "" // texts and numbers can be marshalled
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// Groups returns the names of the token's groups, sorted.
func (t Token) Groups() []string { return slices.Sorted(maps.Keys(t)) }

type tokenText struct {
	Versions map[string]int64 `json:"v"`
}

// ParseToken reads what Token.String returned; "" is no token. Errors:
// CodeUnreadable.
func ParseToken(text string) (Token, error) {
	if text == "" {
		return nil, nil
	}
	var t tokenText
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(data, &t) != nil || !t.valid() {
		return nil, Errorf(CodeUnreadable, "the changegroup_token cannot be read; pass it exactly as a list of runs or change groups returned it")
	}
	return Token(t.Versions), nil
}

func (t tokenText) valid() bool {
	for name, version := range t.Versions {
		if version < 0 || CheckChangeGroupName(name) != "" {
			return false
		}
	}
	return len(t.Versions) > 0 && len(t.Versions) <= MaxTokenGroups
}

// pathPrefix begins the names of the change groups of paths.
const pathPrefix = "group:"

// PathChangeGroups returns the names of the change groups to which a run belongs by its
// group, if they have a limit when it is created: one for each path at or above it, such
// as group:/project and group:/project/42.
func PathChangeGroups(group string) []string {
	var names []string
	for i, c := range group {
		if c == '/' && i > 0 {
			names = append(names, pathPrefix+group[:i])
		}
	}
	if group != "" {
		names = append(names, pathPrefix+group)
	}
	return names
}

// ChangeGroupPath returns the path of a change group of a path, and whether it is one.
func ChangeGroupPath(name string) (path string, ok bool) { return strings.CutPrefix(name, pathPrefix) }

// CheckChangeGroupName returns what is wrong with the name of a change group,
// "" if it is valid.
func CheckChangeGroupName(name string) string {
	switch {
	case name == "":
		return "a change group has a name"
	case len(name) > MaxNameLength:
		return "the name of a change group has at most 100 bytes"
	case strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name):
		return "the name of a change group has characters that cannot be shown"
	case name == "." || name == "..":
		return "a change group cannot be named . or ..: its URL would be that of another resource"
	}
	return ""
}
