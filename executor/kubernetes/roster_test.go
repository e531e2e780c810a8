package kubernetes

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

func (c *clock) now() time.Time          { return c.at }
func (c *clock) pass(span time.Duration) { c.at = c.at.Add(span) }

func newClock() *clock { return &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func TestRoster_counts_from_the_last_sign_of_life(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newRoster(c.now)
	_, vanished := r.vanished("a")
	require.False(t, vanished, "the member is unknown")
	require.False(t, r.knows("a"))

	r.saw("a", "1", 12*time.Second)
	c.pass(11 * time.Second)
	r.saw("a", "1", 12*time.Second) // reading the same version again is not a sign of life
	_, vanished = r.vanished("a")
	require.False(t, vanished)
	require.Equal(t, []string{"a"}, r.present())
	c.pass(3 * time.Second)
	since, vanished := r.vanished("a")
	require.True(t, vanished)
	require.Equal(t, 2*time.Second, since)
	require.Empty(t, r.present())

	r.saw("a", "2", 12*time.Second)
	_, vanished = r.vanished("a")
	require.False(t, vanished, "the member is back")
}

func TestRoster_lets_leave_at_once(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newRoster(c.now)
	r.saw("a", "1", 12*time.Second)
	r.missed("a")
	since, vanished := r.vanished("a")
	require.True(t, vanished)
	require.Zero(t, since)
	c.pass(30 * time.Second)
	r.missed("a")
	since, _ = r.vanished("a")
	require.Equal(t, 30*time.Second, since, "the time counts from the first observation")
	r.saw("b", "1", time.Second)
	r.prune(time.Minute)
	require.True(t, r.knows("a"))
	c.pass(time.Minute)
	r.prune(time.Minute)
	require.False(t, r.knows("a"))
	require.True(t, r.knows("b"), "the member has a lease, which is removed first")
}

// TestRoster_takes_the_clock_that_says_more advances only the wall clock: the
// monotonic clock of a host that slept stood still.
func TestRoster_takes_the_clock_that_says_more(t *testing.T) {
	t.Parallel()
	from := time.Now()
	require.Equal(t, time.Hour, elapsed(from, from.Add(time.Hour)))
	asleep := from.Add(time.Second).Round(0).Add(time.Hour) // no monotonic reading
	require.Equal(t, time.Hour+time.Second, elapsed(from, asleep))
	require.Zero(t, elapsed(from, from))
}

// TestTurn checks that each key has one first member, and each member a share
// of the keys.
func TestTurn(t *testing.T) {
	t.Parallel()
	members := []string{"a", "b", "c"}
	first := map[string]int{}
	for n := range 300 {
		key := run.Key{Run: "01jz0000000000000000000000", Task: n, Attempt: 1, Dispatch: 1}
		places := map[int]bool{}
		for _, member := range members {
			place := turn(key, member, members)
			places[place] = true
			if place == 0 {
				first[member]++
			}
		}
		require.Len(t, places, 3, "the ranks are unique")
		require.Equal(t, 0, turn(key, "z", nil), "a member that knows no other")
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
