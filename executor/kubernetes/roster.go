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

// roster is what one member of a set knows of the others: when it saw each
// renew its lease, by its own clock. Clocks of members are never compared. It is
// safe for concurrent use.
type roster struct {
	now func() time.Time

	mu      sync.Mutex
	members map[string]sighting
}

// sighting is what was seen last of a member's lease.
type sighting struct {
	version string        // of the lease
	at      time.Time     // when that version was first seen
	lasts   time.Duration // how long the lease holds
	gone    bool          // there is no lease: at is since when
}

func newRoster(now func() time.Time) *roster {
	return &roster{now: now, members: make(map[string]sighting)}
}

// saw notes that there is a lease. A version that was seen before is no new
// sign of life.
func (r *roster) saw(member, version string, lasts time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, ok := r.members[member]
	if ok && !was.gone && was.version == version {
		return
	}
	r.members[member] = sighting{version: version, at: r.now(), lasts: lasts}
}

// missed notes that a member has no lease.
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

// prune forgets members that have had no lease for long. One whose keys are
// still there is looked at again.
func (r *roster) prune(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.members, func(_ string, s sighting) bool { return s.gone && elapsed(s.at, r.now()) > after })
}

// vanished returns for how long a member has not been one any more; ok is
// false while it may be one.
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

// elapsed returns the time between two readings of the clock, by whichever of
// the clocks says more: the one stands still while the host sleeps, the other
// may be set.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// turn returns the place of a member, from 0, among those who may take a key
// over. Each key has another order, so that those of a vanished member are
// spread.
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
