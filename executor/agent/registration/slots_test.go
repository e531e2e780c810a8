package registration

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestSlots_queues checks that polls for different labels get slots in turn, and polls
// for labels only while tasks wait that require them.
func TestSlots_queues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1, run.Capacity{})
		s.setOpen(true)
		gpu := map[string]string{"gpu": "a100"}
		id := run.LabelsID(run.LabelsText(gpu))
		var got []string
		var release func()
		poll := func(ctx context.Context, labels string) {
			go func() {
				if r, err := s.Reserve(ctx, labels); err == nil {
					got, release = append(got, labels), r
				}
			}()
			synctest.Wait()
		}
		take := func() []string {
			synctest.Wait()
			out := got
			got = nil
			return out
		}
		_, changed := s.Labels()
		poll(t.Context(), id)
		require.Empty(t, take(), "no task requires the labels")
		poll(t.Context(), "")
		require.Equal(t, []string{""}, take())
		poll(t.Context(), "")
		s.demand(run.DesiredState{Labels: []map[string]string{gpu}})
		<-changed
		labels, _ := s.Labels()
		require.Equal(t, []string{id}, labels)
		require.Empty(t, take(), "the slot is reserved")
		release()
		require.Equal(t, []string{id}, take(), "it has waited longest")
		poll(t.Context(), id)
		release()
		require.Equal(t, []string{""}, take(), "neither queue starves")
		s.demand(run.DesiredState{})
		release()
		require.Empty(t, take())

		ctx, cancel := context.WithCancel(t.Context())
		s.Take(run.Capacity{})
		poll(ctx, "")
		cancel()
		synctest.Wait()
		s.Release(run.Capacity{})
		require.Empty(t, take())
		require.True(t, s.idle(), "a poll that ended leaves no reservation")

		none, two := 0, 2
		s.demand(run.DesiredState{Slots: &none})
		poll(t.Context(), "")
		require.Empty(t, take(), "the pool is at its limit")
		s.demand(run.DesiredState{Slots: &two})
		require.Equal(t, []string{""}, take())
		release()
		s.Exhausted()
		poll(t.Context(), "")
		require.Empty(t, take())
		s.demand(run.DesiredState{})
		require.Equal(t, []string{""}, take())
		release()
		poll(t.Context(), "")
		require.Equal(t, []string{""}, take())
		poll(t.Context(), "")
		s.demand(run.DesiredState{Labels: []map[string]string{gpu}, LabelsOnly: true})
		release()
		require.Equal(t, []string{id}, take())
		release()
		require.Empty(t, take(), "the slot is kept for tasks with the labels")
		s.demand(run.DesiredState{})
		require.Equal(t, []string{""}, take())
	})
}

// TestSlots_resources checks that tasks take what they ask for, and otherwise the share of
// a slot, and that nothing overtakes a large task for long.
func TestSlots_resources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const cpu, gib = 1e9, 1 << 30
		s := NewSlots(8, run.Capacity{CPU: 8 * cpu, Memory: 16 * gib, GPUs: 2})
		s.setOpen(true)
		share := s.Share(run.Resources{})
		require.Equal(t, run.Capacity{CPU: cpu, Memory: 2 * gib}, share)
		large := run.Resources{CPU: "6"}.Labels()
		gpu := run.Resources{CPU: "500m", Memory: "1Gi", GPUs: 2}.Labels()
		id := func(l map[string]string) string { return run.LabelsID(run.LabelsText(l)) }
		s.demand(run.DesiredState{Labels: []map[string]string{large, gpu}})
		require.Equal(t, run.Resources{CPU: "6"}, s.Requested(id(large)))
		require.Equal(t, run.Capacity{CPU: 6 * cpu, Memory: 2 * gib}, s.Share(s.Requested(id(large))))
		require.Equal(t, run.Capacity{CPU: cpu / 2, Memory: gib, GPUs: 2}, s.Share(s.Requested(id(gpu))))

		var got []string
		releases := map[string]func(){}
		poll := func(labels string) {
			go func() {
				if r, err := s.Reserve(t.Context(), labels); err == nil {
					got, releases[labels] = append(got, labels), r
				}
			}()
			synctest.Wait()
		}
		take := func() []string {
			synctest.Wait()
			out := got
			got = nil
			return out
		}
		for range 3 {
			s.Take(share)
		}
		require.Equal(t, 3, s.InUse())
		poll(id(large))
		require.Empty(t, take(), "5 CPUs are left")
		poll(id(gpu))
		poll("")
		require.Equal(t, []string{id(gpu), ""}, take(), "they overtake")
		poll(id(gpu))
		require.Empty(t, take(), "both GPUs are taken")
		releases[id(gpu)]()
		require.Equal(t, []string{id(gpu)}, take())

		<-time.After(overtake)
		releases[id(gpu)]()
		releases[""]()
		poll("")
		require.Empty(t, take(), "the large task has waited long enough")
		s.Release(share)
		require.Equal(t, []string{id(large)}, take(), "6 CPUs are free, and then none")
		releases[id(large)]()
		require.Equal(t, []string{""}, take())
		releases[""]()

		// A task of 6 CPUs is worth 6 of 8 slots.
		s.Take(s.Share(s.Requested(id(large))))
		require.Equal(t, 8, s.InUse())
		s.Release(s.Share(s.Requested(id(large))))
		s.Release(share)
		s.Release(share)
		require.Zero(t, s.InUse())
		require.True(t, s.idle())

		// While only large tasks wait, an empty poll of the pool keeps nothing from them.
		whole := run.Resources{CPU: "8"}.Labels()
		s.demand(run.DesiredState{Labels: []map[string]string{whole}, LabelsOnly: true})
		poll("")
		require.Empty(t, take())
		poll(id(whole))
		require.Equal(t, []string{id(whole)}, take())
		s.demand(run.DesiredState{})
		releases[id(whole)]()
		require.Equal(t, []string{""}, take())
	})
}
