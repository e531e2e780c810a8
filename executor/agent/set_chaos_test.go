package agent_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// TestSet_leaves ends the member that has a task as SIGTERM does, in each state of
// the task. Another member adopts it at once, and no workflow is involved.
func TestSet_leaves(t *testing.T) {
	t.Parallel()
	for _, point := range agent.Failpoints() {
		t.Run(point, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				s := w.newSet("blue", 1)
				p := s.start(once(point, func(p *process) { p.cancel() }))
				w.submit(0)
				w.sleep(500 * time.Millisecond)
				q := s.start(nil)
				<-p.ended
				require.NoError(t, p.err)
				w.awaitEnd(time.Minute, 0)
				w.requireOnce()
				require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
				require.Equal(t, 1, w.startCount(0))
				require.Zero(t, w.adoptions())
				s.requireClean(q)
				w.requireLog(0)
			})
		})
	}
}

// TestSet_all_gone kills all members, and starts a new one much later.
func TestSet_all_gone(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{lines: 60, pause: time.Second} }
		s := w.newSet("blue", 2)
		members := []*process{s.start(nil), s.start(nil)}
		for task := range 4 {
			w.submit(task)
		}
		w.sleep(10 * time.Second)
		for _, p := range members {
			p.kill()
			<-p.ended
		}
		w.sleep(5 * time.Minute)
		p := s.start(nil)
		w.requireAll(t, 4)
		require.Positive(t, w.adoptions())
		s.requireClean(p)
	})
}

// TestSet_stop stops a task through another member than the one that has it, or
// while no member has it.
func TestSet_stop(t *testing.T) {
	t.Parallel()
	key := run.Key{Run: testRun, Task: 0, Attempt: 1, Dispatch: 1}
	for name, kill := range map[string]bool{"of_another_member": false, "of_one_that_vanished": true} {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.script = func(run.Key) script { return script{hang: true} }
				s := w.newSet("blue", 1)
				p := s.start(nil)
				w.submit(0)
				w.sleep(7 * time.Second)
				q := s.start(nil)
				w.sleep(5 * time.Second)
				known, err := q.agent.StopTask(w.ctx, run.Key{Run: testRun, Task: 7, Attempt: 1, Dispatch: 1}, false)
				require.NoError(t, err)
				require.False(t, known)
				if kill {
					p.kill()
				}
				begun := time.Now()
				known, err = q.agent.StopTask(w.ctx, key, false)
				require.NoError(t, err)
				require.True(t, known)
				w.awaitEnd(time.Minute, 0)
				require.Equal(t, run.StatusStopped, w.outcome(0).Status)
				if !kill {
					require.Less(t, time.Since(begun), 3*time.Second)
				}
				s.requireClean(p, q)
			})
		})
	}
}

// TestSet_deleted_entry deletes the entry of a running task from outside, with its
// environment. No member reports that the task never ran.
func TestSet_deleted_entry(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{lines: 600, pause: time.Second} }
		s := w.newSet("blue", 1)
		p := s.start(nil)
		w.submit(0)
		w.sleep(10 * time.Second)
		key := run.Key{Run: testRun, Task: 0, Attempt: 1, Dispatch: 1}
		s.mu.Lock()
		delete(s.entries, key)
		s.mu.Unlock()
		s.h.drop(key)
		w.awaitEnd(10*time.Minute, 0)
		require.Equal(t, run.StatusFailed, w.outcome(0).Status)
		require.Equal(t, run.CauseVanished, w.outcome(0).Cause)
		require.Equal(t, 1, w.startCount(0))
		s.requireClean(p)
	})
}

// TestSet_removed_member removes a member that has a task, as an operator does. The
// member ends, and the others continue its task.
func TestSet_removed_member(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{lines: 60, pause: time.Second} }
		s := w.newSet("blue", 1)
		p := s.start(nil)
		w.submit(0)
		w.sleep(10 * time.Second)
		q := s.start(nil)
		w.api.remove(p.agent.ID())
		<-p.ended
		require.Equal(t, run.CodeForbidden, run.CodeOf(p.err))
		w.requireAll(t, 1)
		require.Zero(t, w.adoptions())
		s.requireClean(q)
	})
}

// TestSet_removed_member_moves removes a member while it moves an archive. The step
// does not fail, and another member serves it.
func TestSet_removed_member_moves(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.scriptArchiveStep(saving())
		s := w.newSet("blue", 1)
		p := s.start(once("moving", func(p *process) { w.api.remove(p.agent.ID()) }))
		w.submit(0)
		w.await(time.Minute, func() (bool, string) {
			w.api.mu.Lock()
			defer w.api.mu.Unlock()
			return w.api.archives.begun > 0, "nothing is saved"
		})
		q := s.start(nil)
		<-p.ended
		require.Equal(t, run.CodeForbidden, run.CodeOf(p.err))
		w.awaitEnd(10*time.Minute, 0)
		w.requireMoved(saving())
		s.requireClean(q)
	})
}

// TestSet_removed_member_answered removes a member whose task is completed, but not
// all of whose frames are stored. Another member sends them.
func TestSet_removed_member_answered(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{lines: 5, pause: time.Second} }
		s := w.newSet("blue", 1)
		p := s.start(nil)
		w.submit(0)
		w.sleep(3 * time.Second)
		w.api.setFramesDown(true)
		w.awaitEnd(10*time.Minute, 0)
		q := s.start(nil)
		w.api.remove(p.agent.ID())
		w.api.setFramesDown(false)
		<-p.ended
		w.requireAll(t, 1)
		s.requireClean(q)
	})
}

// TestSet_chaos starts, stops, freezes and kills members at random failpoints,
// while their dependencies are unavailable at random.
func TestSet_chaos(t *testing.T) {
	t.Parallel()
	seeds, err := strconv.Atoi(os.Getenv("DROVER_CHAOS"))
	if err != nil {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) { setChaos(t, w, &rng{r: rand.New(rand.NewPCG(uint64(seed), 2))}) })
		})
	}
}

func setChaos(t *testing.T, w *testEnv, d *rng) {
	const tasks, members = 12, 3
	w.script = d.script
	s := w.newSet("blue", 2)
	w.explain = func() string { return s.dump() + w.tokens.dump() }
	quiet := make(chan struct{})
	points := agent.Failpoints()
	hook := func(p *process, _ string, _ run.Key) {
		select {
		case <-quiet:
			return
		default:
		}
		switch d.n(2 * len(points)) {
		case 0:
			p.kill()
		case 1:
			p.freeze(time.Duration(d.n(90)) * time.Second)
		case 2:
			p.cancel()
		}
	}
	var starters sync.WaitGroup
	last := make([]*process, members)
	for i := range members {
		starters.Go(func() { last[i] = keepRunning(w, func() *process { return s.start(hook) }, quiet, d) })
	}
	for task := range tasks {
		w.submit(task)
	}
	w.setFaults(d.randomFault)
	w.randomOutages(d, func(down bool) {
		if d.n(2) == 0 {
			s.setDown(down)
		} else {
			s.h.setDown(down)
		}
		w.reset(d.n(tasks))
	})
	w.setFaults(nil)
	s.setDown(false)
	s.h.setDown(false)
	close(quiet)
	starters.Wait()
	w.requireAll(t, tasks)
	s.requireClean(last...)
}
