package recordstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/changegroups"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// benchGroups measures the calls on runs of a change group, also with thousands
// of waiting runs.
func benchGroups(b *testing.B, open func(b *testing.B) records.Store) {
	b.Run("Group/life/limit=0", func(b *testing.B) {
		s, n := open(b), fixture.NewRun(b, fixture.Grouped(3, "g"))
		for b.Loop() {
			lifecycle(b, s, n)
		}
	})
	const waiting = 5000
	openWaiting := func(b *testing.B) (s records.Store, last run.ID) {
		b.Helper()
		s = open(b)
		fixture.Limit(b, s, "g", 2, run.OnBusyQueue)
		for range waiting {
			last = fixture.Create(b, s, fixture.Grouped(3, "g")).ID
		}
		return s, last
	}
	b.Run("Group/waiting=5000/create", func(b *testing.B) {
		s, _ := openWaiting(b)
		n := fixture.NewRun(b, fixture.Grouped(3, "g"))
		for b.Loop() {
			_, err := s.CreateRun(b.Context(), n)
			require.NoError(b, err)
		}
	})
	b.Run("Group/waiting=5000/finish", func(b *testing.B) {
		eachNext(b, openWaiting, func(s records.Store, holder run.ID) {
			require.NoError(b, changegroups.EndRun(b.Context(), s, holder))
			b.StopTimer()
			granted, _, err := s.Grant(b.Context(), "g")
			require.NoError(b, err)
			require.Len(b, granted, 1)
			b.StartTimer()
		})
	})
	b.Run("Group/waiting=5000/grant", func(b *testing.B) {
		eachNext(b, openWaiting, func(s records.Store, holder run.ID) {
			b.StopTimer()
			require.NoError(b, changegroups.EndRun(b.Context(), s, holder))
			b.StartTimer()
			granted, _, err := s.Grant(b.Context(), "g")
			require.NoError(b, err)
			require.Len(b, granted, 1)
		})
	})
	b.Run("Group/waiting=5000/waits", func(b *testing.B) {
		s, last := openWaiting(b)
		for b.Loop() {
			_, err := s.GroupWaits(b.Context(), last)
			require.NoError(b, err)
		}
	})
	b.Run("Group/waiting=5000/list", func(b *testing.B) {
		s, _ := openWaiting(b)
		for b.Loop() {
			_, _, err := s.ChangeGroups(b.Context(), run.ChangeGroupQuery{})
			require.NoError(b, err)
		}
	})
}

// eachNext calls fn repeatedly with the run that holds the slot.
func eachNext(b *testing.B, openWaiting func(b *testing.B) (records.Store, run.ID), fn func(s records.Store, holder run.ID)) {
	b.Helper()
	s, _ := openWaiting(b)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		groups, _, err := s.ChangeGroups(b.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
		require.NoError(b, err)
		holder := groups[0].Running[0]
		_, err = s.Begin(b.Context(), holder)
		require.NoError(b, err)
		b.StartTimer()
		fn(s, holder)
	}
}
