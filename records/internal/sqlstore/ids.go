package sqlstore

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/drover-run/drover/run"
)

// nextID makes the id of a run created at the time after the run last of the
// same group root. It is greater than last, even within one millisecond or
// where the clock went back, unless the time was given by the caller (fixed)
// and lies before last.
func nextID(last run.ID, at time.Time, fixed bool) (run.ID, error) {
	ms := ulid.Timestamp(at)
	if last != "" {
		before, err := ulid.ParseStrict(strings.ToUpper(string(last)))
		if err != nil {
			return "", fmt.Errorf("reading the last run id %q: %w", last, err)
		}
		if ms == before.Time() || (ms < before.Time() && !fixed) {
			return lower(successor(before)), nil
		}
	}
	id, err := ulid.New(ms, rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making a run id: %w", err)
	}
	return lower(id), nil
}

// successor is the next greater id.
func successor(id ulid.ULID) ulid.ULID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]++
		if id[i] != 0 {
			break
		}
	}
	return id
}

func lower(id ulid.ULID) run.ID { return run.ID(strings.ToLower(id.String())) }

// idTime returns the time of an id, to the millisecond.
func idTime(id run.ID) (time.Time, error) {
	u, err := ulid.ParseStrict(strings.ToUpper(string(id)))
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the run id %q: %w", id, err)
	}
	return u.Timestamp(), nil
}

// idBound returns the least, or the greatest, id that a run created in the
// millisecond of the time can have.
func idBound(at time.Time, greatest bool) run.ID {
	var id ulid.ULID
	ms := max(0, at.UnixMilli())
	if err := id.SetTime(min(uint64(ms), ulid.MaxTime())); err != nil {
		return ""
	}
	if greatest {
		for i := 6; i < len(id); i++ {
			id[i] = 0xff
		}
	}
	return lower(id)
}

// groupPrefixes returns the paths by which a group is found: its own and those
// above it; the root is "".
func groupPrefixes(group string) []string {
	prefixes := []string{""}
	for i := 1; i < len(group); i++ {
		if group[i] == '/' {
			prefixes = append(prefixes, group[:i])
		}
	}
	return append(prefixes, group)
}
