package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func (s *fakeAPI) setDesired(w run.DesiredState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.desired = w
}

func (s *fakeAPI) renewal() run.Renewal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// A draining executor accepts no tasks, continues the ones that it has, and accepts
// tasks again once the drain is lifted.
func TestAgent_drains_on_request(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(1)
		p := h.start(nil)
		w.script = func(run.Key) script { return script{lines: 60, pause: time.Second} }
		w.submit(0)
		w.await(time.Minute, func() (bool, string) { return w.startCount(0) == 1, "it does not begin" })
		w.api.setDesired(run.DesiredState{Drain: true})
		w.sleep(2*run.ExecutorRenew + time.Second)
		require.Error(t, p.agent.Health())
		require.True(t, w.api.renewal().Draining)
		require.False(t, w.api.renewal().Drained, "it has a task")
		w.submit(1)
		w.awaitEnd(2*time.Minute, 0)
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		w.sleep(time.Minute)
		require.Zero(t, w.startCount(1))
		require.True(t, w.api.renewal().Drained)

		w.api.setDesired(run.DesiredState{})
		w.awaitEnd(2*time.Minute, 1)
		require.NoError(t, p.agent.Health())
		w.requireOnce()
		w.requireClean(h, p)
	})
}

// A drain that was requested before a process starts holds from its beginning, and
// a task that is delivered nevertheless is requeued.
func TestAgent_drains_from_the_start(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(2)
		w.api.setDesired(run.DesiredState{Drain: true})
		w.submit(0)
		p := h.start(nil)
		w.sleep(time.Minute)
		require.Zero(t, w.startCount(0))
		require.True(t, w.api.renewal().Drained)
		w.api.setDesired(run.DesiredState{})
		w.awaitEnd(2*time.Minute, 0)
		w.requireOnce()
		w.requireClean(h, p)
	})
}

// A poll that was waiting when the drain was requested may return a task: the
// executor requeues it, and nothing of it begins.
func TestAgent_requeues_while_it_drains(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		first, second := w.newHost(1), w.newHost(1)
		p := first.start(nil)
		w.sleep(time.Minute)
		w.api.setDesired(run.DesiredState{Drain: true})
		w.sleep(2*run.ExecutorRenew + time.Second)
		require.False(t, w.api.renewal().Drained, "its poll waits")
		w.submit(0)
		w.sleep(time.Minute)
		require.Zero(t, w.startCount(0))
		require.True(t, w.api.renewal().Drained)
		w.api.setDesired(run.DesiredState{})
		other := second.start(nil)
		w.awaitEnd(2*time.Minute, 0)
		w.requireOnce()
		w.requireClean(first, p)
		w.requireClean(second, other)
	})
}

func (s *fakeAPI) setFull(full bool) (refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
	return s.refused
}

// A refused claim of a full pool ends the polls until the gateway says again how many
// slots may be used. The task is requeued, and leaves nothing behind.
func TestAgent_claim_of_a_full_pool(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(3)
		none := 0
		w.api.setFull(true)
		p := h.start(nil)
		w.sleep(time.Minute)
		w.submit(0)
		w.submit(1)
		w.sleep(time.Second)
		w.api.setDesired(run.DesiredState{Slots: &none})
		w.sleep(10 * time.Minute)
		require.LessOrEqual(t, w.api.setFull(false), 6, "it polls no more than once a renewal and slot")
		require.NoError(t, p.agent.Health())
		require.Zero(t, w.startCount(0)+w.startCount(1))
		require.Zero(t, p.agent.SlotsInUse())

		one := 1
		w.api.setDesired(run.DesiredState{Slots: &one})
		w.awaitEnd(2*time.Minute, 0)
		w.awaitEnd(2*time.Minute, 1)
		w.requireOnce()
		w.requireClean(h, p)
	})
}
