package run

import (
	"strconv"
	"strings"

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
	FaultUnknownInput      Code = "unknown_input"      // no such input
	FaultUnknownPool       Code = "unknown_pool"       // no such pool, or none that matches
	FaultPoolMismatch      Code = "pool_mismatch"      // the pool cannot run such a task
	FaultTooMany           Code = "too_many_faults"    // more faults than are reported
	FaultUnknownVariable   Code = "unknown_variable"   // a warning: a script reads a variable of Drover that does not exist
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

// brief returns s quoted, and shortened if it is long.
func brief(s string) string {
	const maxLen = 60
	return strconv.Quote(truncate.String(s, maxLen, "…"))
}
