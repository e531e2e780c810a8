package executor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func (s *deskService) want(w run.Wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = w
}

func (s *deskService) renewal() run.Renewal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// A draining executor accepts no tasks, continues the ones that it has, and accepts
// tasks again once the drain is lifted.
func TestAgent_drains_when_wanted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := w.newHost(1)
		p := h.start(nil)
		w.script = func(run.Key) script { return script{lines: 60, pause: time.Second} }
		w.submit(0)
		w.await(time.Minute, func() (bool, string) { return w.beginnings(0) == 1, "it does not begin" })
		w.desk.want(run.Wanted{Drain: true})
		w.sleep(2*run.ExecutorRenew + time.Second)
		require.Error(t, p.agent.Health())
		require.True(t, w.desk.renewal().Draining)
		require.False(t, w.desk.renewal().Drained, "it has a task")
		w.submit(1)
		w.awaitEnd(2*time.Minute, 0)
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		w.sleep(time.Minute)
		require.Zero(t, w.beginnings(1))
		require.True(t, w.desk.renewal().Drained)

		w.desk.want(run.Wanted{})
		w.awaitEnd(2*time.Minute, 1)
		require.NoError(t, p.agent.Health())
		w.requireOnce()
		w.requireClean(h, p)
	})
}

// A drain that was requested before a process starts holds from its beginning, and
// a task that is delivered nevertheless is requeued.
func TestAgent_drains_from_the_start(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := w.newHost(2)
		w.desk.want(run.Wanted{Drain: true})
		w.submit(0)
		p := h.start(nil)
		w.sleep(time.Minute)
		require.Zero(t, w.beginnings(0))
		require.True(t, w.desk.renewal().Drained)
		w.desk.want(run.Wanted{})
		w.awaitEnd(2*time.Minute, 0)
		w.requireOnce()
		w.requireClean(h, p)
	})
}

// A poll that was waiting when the drain was requested may return a task: the
// executor requeues it, and nothing of it begins.
func TestAgent_gives_back_while_it_drains(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first, second := w.newHost(1), w.newHost(1)
		p := first.start(nil)
		w.sleep(time.Minute)
		w.desk.want(run.Wanted{Drain: true})
		w.sleep(2*run.ExecutorRenew + time.Second)
		require.False(t, w.desk.renewal().Drained, "its poll waits")
		w.submit(0)
		w.sleep(time.Minute)
		require.Zero(t, w.beginnings(0))
		require.True(t, w.desk.renewal().Drained)
		w.desk.want(run.Wanted{})
		other := second.start(nil)
		w.awaitEnd(2*time.Minute, 0)
		w.requireOnce()
		w.requireClean(first, p)
		w.requireClean(second, other)
	})
}
