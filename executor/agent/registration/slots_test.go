package registration

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestSlots_queues checks that polls for different labels get slots in turn, and polls
// for labels only while tasks wait that require them.
func TestSlots_queues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		s.setOpen(true)
		gpu := map[string]string{"gpu": "a100"}
		id := run.LabelsID(run.LabelsText(gpu))
		var got []string
		poll := func(ctx context.Context, labels string) {
			go func() {
				if s.Reserve(ctx, labels) == nil {
					got = append(got, labels)
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
		s.Unreserve()
		require.Equal(t, []string{id}, take(), "it has waited longest")
		poll(t.Context(), id)
		s.Unreserve()
		require.Equal(t, []string{""}, take(), "neither queue starves")
		s.demand(run.DesiredState{})
		s.Unreserve()
		require.Empty(t, take())

		ctx, cancel := context.WithCancel(t.Context())
		s.Take()
		poll(ctx, "")
		cancel()
		synctest.Wait()
		s.Release()
		require.Empty(t, take())
		require.True(t, s.idle(), "a poll that ended leaves no reservation")

		none, two := 0, 2
		s.demand(run.DesiredState{Slots: &none})
		poll(t.Context(), "")
		require.Empty(t, take(), "the pool is at its limit")
		s.demand(run.DesiredState{Slots: &two})
		require.Equal(t, []string{""}, take())
		s.Unreserve()
		s.Exhausted()
		poll(t.Context(), "")
		require.Empty(t, take())
		s.demand(run.DesiredState{})
		require.Equal(t, []string{""}, take())
		s.Unreserve()
		poll(t.Context(), "")
		require.Equal(t, []string{""}, take())
		poll(t.Context(), "")
		s.demand(run.DesiredState{Labels: []map[string]string{gpu}, LabelsOnly: true})
		s.Unreserve()
		require.Equal(t, []string{id}, take())
		s.Unreserve()
		require.Empty(t, take(), "the slot is kept for tasks with the labels")
		s.demand(run.DesiredState{})
		require.Equal(t, []string{""}, take())
	})
}
