package spec

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/drover-run/drover/internal/suggest"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
)

// Bounds of the cost of suggestions: each compares a word with all known names.
const (
	maxSuggestions = 10
	maxCompared    = 100_000 // names, of all suggestions together
)

// faultList collects faults up to MaxFaults. A check that adds faults ends
// early when stop reports true: the client would not see further faults.
type faultList struct {
	faults      []run.Fault
	suggestions int             // how many are left
	compared    int             // how many names may still be compared
	done        <-chan struct{} // of the request; nil if the request cannot be cancelled
	missing     inputs.Missing
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
		return len(l.faults) > run.MaxFaults
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

func (l *faultList) add(path run.Path, code run.Code, format string, args ...any) {
	switch {
	case len(l.faults) < run.MaxFaults:
		l.faults = append(l.faults, run.Fault{Path: string(path), Code: code, Detail: fmt.Sprintf(format, args...)})
	case len(l.faults) == run.MaxFaults:
		l.faults = append(l.faults, run.Fault{Code: run.FaultTooMany, Detail: "there are more faults than are listed here"})
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

// Locate returns faults with the lines of their paths in a specification, for
// faults without a line, which other checks found. If the specification cannot
// be read, it returns the faults unchanged.
func Locate(faults []run.Fault, data []byte, format Format) []run.Fault {
	root, err := parse(data, format)
	if err != nil {
		return faults
	}
	faults = slices.Clone(faults)
	locate(faults, root)
	return faults
}
