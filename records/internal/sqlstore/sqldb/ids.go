package sqldb

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/drover-run/drover/run"
)

// NextID returns the id of a run created at the time, after the run last of the
// same group root. It is greater than last, even within one millisecond or if
// the clock went back, unless the caller gave the time (fixed) and it is before
// last.
func NextID(last run.ID, at time.Time, fixed bool) (run.ID, error) {
	ms := ulid.Timestamp(at)
	if last != "" {
		before, err := ulid.ParseStrict(strings.ToUpper(string(last)))
		if err != nil {
			return "", fmt.Errorf("parse the last run id %q: %w", last, err)
		}
		if ms == before.Time() || (ms < before.Time() && !fixed) {
			return lower(successor(before)), nil
		}
	}
	id, err := ulid.New(ms, rand.Reader)
	if err != nil {
		return "", fmt.Errorf("create run id: %w", err)
	}
	return lower(id), nil
}

// successor returns the next greater id.
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

// IDTime returns the time of an id, to the millisecond.
func IDTime(id run.ID) (time.Time, error) {
	u, err := ulid.ParseStrict(strings.ToUpper(string(id)))
	if err != nil {
		return time.Time{}, fmt.Errorf("parse run id %q: %w", id, err)
	}
	return u.Timestamp(), nil
}

// IDBound returns the least, or the greatest, id of a run created in the
// millisecond of the time.
func IDBound(at time.Time, greatest bool) run.ID {
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
