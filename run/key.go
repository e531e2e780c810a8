package run

import (
	"fmt"
	"strconv"
	"strings"
)

// ID identifies a run: 26 lower-case characters (a ULID), sortable by the time
// of creation.
type ID string

// Key identifies one dispatch of one attempt of one task. An executor runs the
// steps of a key at most once, even after a crash.
type Key struct {
	Run      ID  `json:"run"`
	Task     int `json:"task"`     // the task's number in its run, from 0
	Attempt  int `json:"attempt"`  // from 1: counts the times the task's steps may have begun
	Dispatch int `json:"dispatch"` // from 1 in each attempt: counts the times it was queued
}

// String returns the key as "run.task.attempt.dispatch", which is also valid in
// file and container names.
func (k Key) String() string {
	return fmt.Sprintf("%s.%d.%d.%d", k.Run, k.Task, k.Attempt, k.Dispatch)
}

// ParseKey parses the form that String returns. The error has CodeInvalid.
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 || !ValidID(ID(parts[0])) {
		return Key{}, Errorf(CodeInvalid, "%q is not a task key", s)
	}
	var n [3]int
	for i, p := range parts[1:] {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 {
			return Key{}, Errorf(CodeInvalid, "%q is not a task key", s)
		}
		n[i] = v
	}
	return Key{Run: ID(parts[0]), Task: n[0], Attempt: n[1], Dispatch: n[2]}, nil
}

// Before reports whether k is of an earlier attempt, or of an earlier dispatch
// of the same attempt, than o. Both must be of the same task.
func (k Key) Before(o Key) bool {
	if k.Attempt != o.Attempt {
		return k.Attempt < o.Attempt
	}
	return k.Dispatch < o.Dispatch
}

// ValidID reports whether id has the form of a run id.
func ValidID(id ID) bool {
	if len(id) != 26 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
