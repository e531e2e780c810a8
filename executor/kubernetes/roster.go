package kubernetes

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// roster records when one member of a set saw each other member renew its
// lease, by its own clock. Clocks of members are never compared. It is safe for
// concurrent use.
type roster struct {
	now func() time.Time

	mu      sync.Mutex
	members map[string]sighting
}

// sighting is the last observed state of a member's lease.
type sighting struct {
	version string        // of the lease
	at      time.Time     // when that version was first seen
	lasts   time.Duration // lease duration
	gone    bool          // there is no lease since at
}

func newRoster(now func() time.Time) *roster {
	return &roster{now: now, members: make(map[string]sighting)}
}

// saw records the lease of a member. A version that was seen before is not a
// new sign of life.
func (r *roster) saw(member, version string, lasts time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, ok := r.members[member]
	if ok && !was.gone && was.version == version {
		return
	}
	r.members[member] = sighting{version: version, at: r.now(), lasts: lasts}
}

// missed records that a member has no lease.
func (r *roster) missed(member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.members[member]; !ok || !was.gone {
		r.members[member] = sighting{at: r.now(), gone: true}
	}
}

// knows reports whether anything is known of a member.
func (r *roster) knows(member string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.members[member]
	return ok
}

// prune removes members that have had no lease for long. A member whose keys
// still exist is looked up again.
func (r *roster) prune(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.members, func(_ string, s sighting) bool { return s.gone && elapsed(s.at, r.now()) > after })
}

// vanished returns how long ago a member's lease ended; ok is false while the
// lease may be valid.
func (r *roster) vanished(member string) (since time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.members[member]
	if !known {
		return 0, false
	}
	since = elapsed(s.at, r.now())
	if !s.gone {
		since -= s.lasts
	}
	return since, since >= 0
}

// present returns the members that have not vanished, sorted.
func (r *roster) present() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		if s := r.members[name]; !s.gone && elapsed(s.at, r.now()) < s.lasts {
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

// turn returns the rank of a member, from 0, among the members that may adopt a
// key. Each key has another order, which spreads the keys of a vanished member.
func turn(key run.Key, member string, present []string) int {
	weight := func(name string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key.String() + " " + name))
		return h.Sum64()
	}
	own, place := weight(member), 0
	for _, name := range present {
		if name == member {
			continue
		}
		if c := cmp.Compare(weight(name), own); c > 0 || c == 0 && name < member {
			place++
		}
	}
	return place
}
