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

// TestAgent_chaos makes several executors run tasks while processes are killed and
// frozen at random failpoints, Temporal, the executor API and the drivers become
// unavailable at random, and workflows are reset. In every case, each task ends,
// its steps began once, and its log is complete. DROVER_CHAOS sets the number of
// cases.
func TestAgent_chaos(t *testing.T) {
	t.Parallel()
	seeds, err := strconv.Atoi(os.Getenv("DROVER_CHAOS"))
	if err != nil {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) { chaos(t, w, rand.New(rand.NewPCG(uint64(seed), 1))) })
		})
	}
}

// rng is a source of random numbers for many goroutines.
type rng struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *rng) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func chaos(t *testing.T, w *testEnv, r *rand.Rand) {
	const tasks, hosts = 12, 3
	d := &rng{r: r}
	w.script = d.script
	points := agent.Failpoints()
	quiet := make(chan struct{})
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
		}
	}
	var starters sync.WaitGroup
	last := make([]*process, hosts)
	all := make([]*host, hosts)
	for i := range hosts {
		all[i] = w.newHost(2)
		starters.Go(func() { last[i] = keepRunning(w, func() *process { return all[i].start(hook) }, quiet, d) })
	}
	w.explain = func() string {
		state := ""
		for i, h := range all {
			state += fmt.Sprintf("host %d: %v, in use: %d, environments %v\n%s", i, last[i].agent.Health(),
				last[i].agent.SlotsInUse(), h.keys(), h.dump())
		}
		return state + w.tokens.dump()
	}
	for task := range tasks {
		w.submit(task)
	}
	w.setFaults(d.randomFault)
	w.randomOutages(d, func(down bool) {
		all[d.n(hosts)].setDown(down)
		w.reset(d.n(tasks))
	})
	w.setFaults(nil)
	for _, h := range all {
		h.setDown(false)
	}
	close(quiet)
	starters.Wait()
	w.requireAll(t, tasks)
	for i, h := range all {
		w.requireClean(h, last[i])
	}
}

// script generates the script of a task.
func (d *rng) script(run.Key) script {
	s := script{lines: d.n(20), pause: time.Duration(d.n(3000)) * time.Millisecond, setup: make([]string, d.n(3))}
	switch d.n(12) {
	case 0:
		s.late = run.Errorf(run.CodeUnavailable, "connection lost")
	case 1:
		s.delay = time.Duration(d.n(60)) * time.Second
	case 2:
		s.failure = run.Errorf(run.CodeUnavailable, "daemon is gone")
	}
	return s
}

// randomFault generates the fault of a call.
func (d *rng) randomFault() (callFault, time.Duration) {
	delay := time.Duration(d.n(90)) * time.Second // mostly beyond the timeout of the caller
	switch d.n(20) {
	case 0:
		return responseLost, delay
	case 1:
		return requestDelayed, delay
	default:
		return noFault, 0
	}
}

// randomOutages makes the dependencies of executors unavailable, and available again, at
// random.
func (w *testEnv) randomOutages(d *rng, other func(down bool)) {
	for range 30 {
		w.sleep(time.Duration(d.n(20)) * time.Second)
		up := d.n(2) == 0
		switch d.n(4) {
		case 0:
			w.tokens.setDown(!up)
		case 1:
			w.api.setDown(!up)
		case 2:
			w.api.setFramesDown(!up)
		case 3:
			other(!up)
		}
	}
	w.tokens.setDown(false)
	w.api.setDown(false)
	w.api.setFramesDown(false)
}

// requireAll waits until the tasks have ended, and checks that each ran once, to
// its end, with a complete log.
func (w *testEnv) requireAll(t *testing.T, tasks int) {
	t.Helper()
	ids := make([]int, tasks)
	for i := range ids {
		ids[i] = i
	}
	w.awaitEnd(3*time.Hour, ids...)
	w.requireOnce()
	for _, task := range ids {
		require.Equal(t, run.StatusSuccess, w.outcome(task).Status, "task %d: %s", task, w.outcome(task).Reason)
		require.Equal(t, 1, w.startCount(task))
		w.requireLog(task)
	}
}

// keepRunning starts a process whenever none runs, until quiet is closed, and returns the
// last one, running.
func keepRunning(w *testEnv, start func() *process, quiet <-chan struct{}, d *rng) *process {
	for {
		p := start()
		select {
		case <-p.ended:
			w.sleep(time.Duration(d.n(90)) * time.Second)
		case <-quiet:
			w.sleep(time.Second)
			select {
			case <-p.ended: // it was just leaving
				continue
			default:
			}
			if !p.isDead() {
				return p
			}
			<-p.ended
		}
	}
}
