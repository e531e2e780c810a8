package run

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/internal/suggest"
	"github.com/drover-run/drover/internal/truncate"
)

// The codes of single faults of an input, beside CodeNotSupported.
const (
	FaultRequired          Code = "required"           // it must be set, and not be empty
	FaultUnknownField      Code = "unknown_field"      // unknown field
	FaultDuplicate         Code = "duplicate"          // given twice, or two values that would have the same name
	FaultWrongType         Code = "wrong_type"         // a list where a map is expected, and so on
	FaultBadFormat         Code = "bad_format"         // a name, duration, quantity, ... of the wrong form
	FaultBadValue          Code = "bad_value"          // none of the values allowed
	FaultOutOfRange        Code = "out_of_range"       // a number too small or too large
	FaultOverLimit         Code = "over_limit"         // over one of the stated limits
	FaultReserved          Code = "reserved"           // a name that is reserved for Drover
	FaultContradiction     Code = "contradiction"      // two settings that exclude each other
	FaultUnknownDependency Code = "unknown_dependency" // no such task
	FaultCycle             Code = "cycle"              // tasks that depend on themselves
	FaultUnknownSecret     Code = "unknown_secret"     // no such secret
	FaultUnknownPool       Code = "unknown_pool"       // no such pool, or none that matches
	FaultPoolMismatch      Code = "pool_mismatch"      // the pool cannot run such a task
	FaultTooMany           Code = "too_many_faults"    // more faults than are reported
	FaultNotExpanded       Code = "not_expanded"       // a warning: a template in a text that does not expand it
)

// MaxFaults is the most faults that are reported at once; one more says that
// there are others.
const MaxFaults = 1000

// Path is a location in an input, as in "tasks.build.depends[1].task". The
// empty path is the whole input.
type Path string

// maxPathKey bounds what one key of the input adds to a path.
const maxPathKey = 100

// Key returns the path of a key of the map, or of a field of the object, at p.
func (p Path) Key(key string) Path {
	plain := key != ""
	key = truncate.String(key, maxPathKey, "…")
	for i := range len(key) {
		if c := key[i]; !isAlphanumeric(c) && !strings.ContainsRune("._-/:", rune(c)) {
			plain = false
		}
	}
	switch {
	case !plain:
		return p + Path("["+strconv.Quote(key)+"]")
	case p == "":
		return Path(key)
	}
	return p + Path("."+key)
}

// Index returns the path of an item of the list at p.
func (p Path) Index(i int) Path { return p + Path("["+strconv.Itoa(i)+"]") }

// Parent returns the path from which Key or Index made p. A key with a dot in
// it counts as two keys.
func (p Path) Parent() Path {
	if i := strings.LastIndexAny(string(p), ".["); i > 0 {
		return p[:i]
	}
	return ""
}

// Bounds of the cost of suggestions: each compares a word with all known names.
const (
	maxSuggestions = 10
	maxCompared    = 100_000 // names, of all suggestions together
)

// faultList collects faults up to MaxFaults. A check that adds faults ends
// early when stop reports true: the client would not see further faults.
type faultList struct {
	faults      []Fault
	suggestions int             // how many are left
	compared    int             // how many names may still be compared
	done        <-chan struct{} // of the request; nil if the request cannot be cancelled
}

func newFaultList() *faultList {
	return &faultList{suggestions: maxSuggestions, compared: maxCompared}
}

// stop reports whether a check is to end: the list is full, or the request was
// cancelled.
func (l *faultList) stop() bool {
	select {
	case <-l.done:
		return true
	default:
		return len(l.faults) > MaxFaults
	}
}

// sorted yields the entries of a map in the order of their keys, until the
// check is to end.
func sorted[V any](l *faultList, m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if l.stop() || !yield(key, m[key]) {
				return
			}
		}
	}
}

// items yields the items of a list, until the check is to end.
func items[V any](l *faultList, list []V) iter.Seq2[int, V] {
	return func(yield func(int, V) bool) {
		for i, v := range list {
			if l.stop() || !yield(i, v) {
				return
			}
		}
	}
}

func (l *faultList) add(path Path, code Code, format string, args ...any) {
	switch {
	case len(l.faults) < MaxFaults:
		l.faults = append(l.faults, Fault{Path: string(path), Code: code, Detail: fmt.Sprintf(format, args...)})
	case len(l.faults) == MaxFaults:
		l.faults = append(l.faults, Fault{Code: FaultTooMany, Detail: "there are more faults than are listed here"})
	}
}

// didYouMean returns a hint such as `; did you mean "build"?`, or "".
func (l *faultList) didYouMean(word string, known []string) string {
	if l.suggestions == 0 || l.compared < len(known) {
		return ""
	}
	l.suggestions--
	l.compared -= len(known)
	if s := suggest.Nearest(word, known); s != "" {
		return fmt.Sprintf("; did you mean %q?", s)
	}
	return ""
}

// brief returns s quoted, and shortened if it is long.
func brief(s string) string {
	const maxLen = 60
	return strconv.Quote(truncate.String(s, maxLen, "…"))
}
