package executorset

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-run/drover/run"
)

// clock is a manual clock.
type clock struct{ at time.Time }

func (c *clock) now() time.Time             { return c.at }
func (c *clock) advance(span time.Duration) { c.at = c.at.Add(span) }

func newClock() *clock { return &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func TestMembership_counts_from_the_last_sign_of_life(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newMembership(c.now)
	_, vanished := r.vanished("a")
	require.False(t, vanished, "the member is unknown")
	require.False(t, r.has("a"))

	r.observe("a", "1", 12*time.Second)
	c.advance(11 * time.Second)
	r.observe("a", "1", 12*time.Second) // reading the same version again is not a sign of life
	_, vanished = r.vanished("a")
	require.False(t, vanished)
	require.Equal(t, []string{"a"}, r.present())
	c.advance(3 * time.Second)
	since, vanished := r.vanished("a")
	require.True(t, vanished)
	require.Equal(t, 2*time.Second, since)
	require.Empty(t, r.present())

	r.observe("a", "2", 12*time.Second)
	_, vanished = r.vanished("a")
	require.False(t, vanished, "the member is back")
}

func TestMembership_leaves_at_once(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newMembership(c.now)
	r.observe("a", "1", 12*time.Second)
	r.observeMissing("a")
	since, vanished := r.vanished("a")
	require.True(t, vanished)
	require.Zero(t, since)
	c.advance(30 * time.Second)
	r.observeMissing("a")
	since, _ = r.vanished("a")
	require.Equal(t, 30*time.Second, since, "the time counts from the first observation")
	r.observe("b", "1", time.Second)
	r.prune(time.Minute)
	require.True(t, r.has("a"))
	c.advance(time.Minute)
	r.prune(time.Minute)
	require.False(t, r.has("a"))
	require.True(t, r.has("b"), "the member has a lease, which is removed first")
}

// TestElapsed_uses_the_later_clock advances only the wall clock: the
// monotonic clock of a host that slept stood still.
func TestElapsed_uses_the_later_clock(t *testing.T) {
	t.Parallel()
	from := time.Now()
	require.Equal(t, time.Hour, elapsed(from, from.Add(time.Hour)))
	asleep := from.Add(time.Second).Round(0).Add(time.Hour) // no monotonic reading
	require.Equal(t, time.Hour+time.Second, elapsed(from, asleep))
	require.Zero(t, elapsed(from, from))
}

// TestRank checks that each key has one first member, and each member a share
// of the keys.
func TestRank(t *testing.T) {
	t.Parallel()
	members := []string{"a", "b", "c"}
	first := map[string]int{}
	for n := range 300 {
		key := run.Key{Run: "01jz0000000000000000000000", Task: n, Attempt: 1, Dispatch: 1}
		positions := map[int]bool{}
		for _, member := range members {
			position := rank(key, member, members)
			positions[position] = true
			if position == 0 {
				first[member]++
			}
		}
		require.Len(t, positions, 3, "the ranks are unique")
		require.Equal(t, 0, rank(key, "z", nil), "a member that knows no other")
	}
	for _, member := range members {
		require.Greater(t, first[member], 60)
	}
}

func TestDNSName(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, text := range []string{"a", "A", "a.b", "a_b", "a-b", "-", "", "ä", strings.Repeat("x", 200), strings.Repeat("x", 201), "x--.", "x"} {
		name := dnsName("drover", text)
		require.Empty(t, validation.IsDNS1123Subdomain(name), name)
		require.Empty(t, seen[name], "%q has the name of another", text)
		seen[name] = text
	}
}

func TestNextTerm(t *testing.T) {
	t.Parallel()
	require.Equal(t, "2", nextTerm("1"))
	require.Equal(t, "10", nextTerm("9"))
	require.Equal(t, "1", nextTerm("x"))
}
