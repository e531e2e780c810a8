package executorset

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// membership records when one member of a set saw each other member renew its
// lease, by its own clock. Clocks of members are never compared. It is safe for
// concurrent use.
type membership struct {
	now func() time.Time

	mu      sync.Mutex
	members map[string]lastSeen
}

// lastSeen is the last observed state of a member's lease.
type lastSeen struct {
	version  string        // of the lease
	at       time.Time     // when that version was first seen
	duration time.Duration // lease duration
	gone     bool          // there is no lease since at
}

func newMembership(now func() time.Time) *membership {
	return &membership{now: now, members: make(map[string]lastSeen)}
}

// observe records the lease of a member. A version that was seen before is not a
// new sign of life.
func (r *membership) observe(member, version string, duration time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	previous, ok := r.members[member]
	if ok && !previous.gone && previous.version == version {
		return
	}
	r.members[member] = lastSeen{version: version, at: r.now(), duration: duration}
}

// observeMissing records that a member has no lease.
func (r *membership) observeMissing(member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if previous, ok := r.members[member]; !ok || !previous.gone {
		r.members[member] = lastSeen{at: r.now(), gone: true}
	}
}

// has reports whether anything is known of a member.
func (r *membership) has(member string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.members[member]
	return ok
}

// prune removes members that have had no lease for long. A member whose keys
// still exist is looked up again.
func (r *membership) prune(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.members, func(_ string, s lastSeen) bool { return s.gone && elapsed(s.at, r.now()) > after })
}

// vanished returns how long ago a member's lease ended; ok is false while the
// lease may be valid.
func (r *membership) vanished(member string) (since time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.members[member]
	if !known {
		return 0, false
	}
	since = elapsed(s.at, r.now())
	if !s.gone {
		since -= s.duration
	}
	return since, since >= 0
}

// present returns the members that have not vanished, sorted.
func (r *membership) present() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		if s := r.members[name]; !s.gone && elapsed(s.at, r.now()) < s.duration {
			names = append(names, name)
		}
	}
	return names
}

// elapsed returns the longer of the times that the monotonic and the wall clock
// show between two readings. The monotonic clock stands still while the host
// sleeps, and the wall clock may be set.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// rank returns the rank of a member, from 0, among the members that may adopt a
// key. Each key has another order, which spreads the keys of a vanished member.
func rank(key run.Key, member string, present []string) int {
	weight := func(name string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key.String() + " " + name))
		return h.Sum64()
	}
	own, position := weight(member), 0
	for _, name := range present {
		if name == member {
			continue
		}
		if c := cmp.Compare(weight(name), own); c > 0 || c == 0 && name < member {
			position++
		}
	}
	return position
}
