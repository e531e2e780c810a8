package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

const (
	testRun          = run.ID("01jz0000000000000000000000")
	heartbeatTimeout = 30 * time.Second
)

// world is everything around executors, in virtual time: the service that
// hands out tasks and the workflow behind it, the desk, and the hosts with
// their environments, which outlive the processes.
type world struct {
	t      testing.TB
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	tokens *tokenService
	desk   *deskService

	mu       sync.Mutex
	began    map[attemptID]int // how often the steps of an attempt began
	outcomes map[int][]run.TaskResult
	script   func(key run.Key) script
	explain  func() string
}

type attemptID struct{ task, attempt int }

// script is what the steps of a task do.
type script struct {
	lines   int
	pause   time.Duration // between lines
	vanish  error         // the environment ends with this instead of a task_end
	setup   []string
	failure error         // of Start, before the launch
	delay   time.Duration // of Start, before the launch
	late    error         // of the first Start, after the launch
	hang    bool          // ends only when stopped
	bulk    int           // bytes of a line; 0: few
}

// inWorld runs a test in virtual time. All goroutines must end with it.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		f(t, w)
	})
}

func newWorld(t testing.TB) *world {
	ctx, cancel := context.WithCancel(t.Context())
	w := &world{
		t: t, ctx: ctx, cancel: cancel,
		began:    map[attemptID]int{},
		outcomes: map[int][]run.TaskResult{},
		script:   func(run.Key) script { return script{lines: 3, pause: time.Second, setup: []string{"pulling"}} },
	}
	w.tokens = newTokenService(w)
	w.desk = newDeskService(w)
	return w
}

func (w *world) close() {
	w.cancel()
	w.group.Wait()
}

// submit runs a task's workflow.
func (w *world) submit(task int) {
	w.group.Go(func() { w.workflow(task, 1) })
}

// workflow is what the run workflow does with one attempt of a task.
func (w *world) workflow(task, attempt int) {
	for dispatch := 1; w.ctx.Err() == nil; dispatch++ {
		key := run.Key{Run: testRun, Task: task, Attempt: attempt, Dispatch: dispatch}
		w.desk.queue(key)
		d := w.tokens.schedule("pool", delivery{kind: "execute", key: key})
		for !w.again(d) {
			switch {
			case d.out.Ended != nil:
				w.desk.closeClaim(key)
				w.mu.Lock()
				w.outcomes[task] = append(w.outcomes[task], *d.out.Ended)
				w.mu.Unlock()
				return
			case w.ctx.Err() != nil, d.terminated:
				return
			}
			// Out of contact, or claimed by another: adopt.
			who := d.details
			if d.out.Claimed != nil {
				who = d.out.Claimed
			}
			holder := w.desk.holder(key)
			if who == nil || who.Executor == "" {
				who = &executor.HeartbeatDetails{Executor: holder}
			}
			if who.Executor == "" {
				break // nobody ever had it
			}
			d = w.tokens.schedule("executor:"+who.Executor, delivery{kind: "adopt", key: key, journal: who.JournalID})
		}
		w.desk.closeClaim(key)
		w.sleep(time.Second)
	}
}

// again reports whether the key is to be queued again.
func (w *world) again(d *delivery) bool { return d.out.GivenBack != "" || d.out.NeverStarted != "" }

func (w *world) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
	}
}

// await waits, in virtual time, until cond holds.
func (w *world) await(limit time.Duration, cond func() (bool, string)) {
	w.t.Helper()
	deadline, pause := time.Now().Add(limit), time.Millisecond
	for {
		synctest.Wait()
		ok, state := cond()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			if w.explain != nil {
				state += "\n" + w.explain()
			}
			w.t.Fatalf("gave up after %s; last state: %s", limit, state)
		}
		time.Sleep(pause) // virtual
		pause = min(2*pause, time.Second)
	}
}

// awaitEnd waits until each task has its outcome.
func (w *world) awaitEnd(limit time.Duration, tasks ...int) {
	w.t.Helper()
	w.await(limit, func() (bool, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, task := range tasks {
			if len(w.outcomes[task]) == 0 {
				return false, fmt.Sprintf("task %d has not ended", task)
			}
		}
		return true, ""
	})
}

func (w *world) outcome(task int) run.TaskResult {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(w.t, w.outcomes[task], 1)
	return w.outcomes[task][0]
}

// requireOnce checks that the steps of no attempt began twice.
func (w *world) requireOnce() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range w.began {
		require.LessOrEqual(w.t, n, 1, "steps of %v began %d times", id, n)
	}
}

// beginnings returns how often the steps of a task began, in all.
func (w *world) beginnings(task int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for id, count := range w.began {
		if id.task == task {
			n += count
		}
	}
	return n
}

// delivery is one scheduled activity.
type delivery struct {
	kind    string
	key     run.Key
	journal string

	token   string
	attempt int
	details *executor.HeartbeatDetails
	last    time.Time
	closed  bool
	stop    bool
	// terminated: its workflow is no more.
	terminated bool
	done       chan struct{}
	out        executor.Outcome
}

// tokenService stands for Temporal.
type tokenService struct {
	w *world

	mu      sync.Mutex
	n       int
	byToken map[string]*delivery
	queues  map[string][]*delivery
	changed chan struct{}
	down    bool
}

func newTokenService(w *world) *tokenService {
	return &tokenService{w: w, byToken: map[string]*delivery{}, queues: map[string][]*delivery{}, changed: make(chan struct{})}
}

// schedule schedules an activity and waits for its end: an outcome, or none
// where it was lost.
func (s *tokenService) schedule(queue string, d delivery) *delivery {
	s.mu.Lock()
	s.n++
	d.token, d.attempt, d.done = fmt.Sprintf("token-%d", s.n), 1, make(chan struct{})
	s.byToken[d.token] = &d
	s.queues[queue] = append(s.queues[queue], &d)
	s.notify()
	s.mu.Unlock()
	for {
		s.mu.Lock()
		wait := heartbeatTimeout
		if !d.last.IsZero() {
			wait = time.Until(d.last.Add(heartbeatTimeout))
		}
		if wait <= 0 && !s.down {
			d.closed = true
			s.mu.Unlock()
			return &d
		}
		s.mu.Unlock()
		select {
		case <-d.done:
			return &d
		case <-time.After(max(wait, time.Second)):
		case <-s.w.ctx.Done():
			return &d
		}
	}
}

func (s *tokenService) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// poll waits for a delivery of a queue.
func (s *tokenService) poll(ctx context.Context, queue string) *delivery {
	for {
		s.mu.Lock()
		changed := s.changed
		if q := s.queues[queue]; len(q) > 0 && !s.down {
			d := q[0]
			s.queues[queue] = q[1:]
			d.last = time.Now()
			s.mu.Unlock()
			return d
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *tokenService) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	s.notify()
}

// forget closes all deliveries of a task, as the end of its workflow does.
func (s *tokenService) forget(task int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, d := range s.byToken {
		if d.key.Task == task && !d.closed {
			delete(s.byToken, token)
			d.terminated = true
			close(d.done)
		}
	}
}

// stop wants the newest delivery of a task stopped.
func (s *tokenService) stop(task int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.byToken {
		if d.key.Task == task && !d.closed {
			d.stop = true
		}
	}
}

func (s *tokenService) heartbeat(token []byte, details executor.HeartbeatDetails) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byToken[string(token)]
	switch {
	case s.down:
		return run.Errorf(run.CodeUnavailable, "down")
	case d == nil || d.closed:
		return run.Errorf(run.CodeNotFound, "no such token")
	}
	d.last, d.details = time.Now(), &details
	if d.stop {
		return executor.ErrStopWanted
	}
	return nil
}

func (s *tokenService) complete(token []byte, out executor.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byToken[string(token)]
	switch {
	case s.down:
		return run.Errorf(run.CodeUnavailable, "down")
	case d == nil || d.closed:
		return run.Errorf(run.CodeNotFound, "no such token")
	}
	d.closed, d.out = true, out
	close(d.done)
	return nil
}

// deskService stands for the gateway and the records.
type deskService struct {
	w *world

	mu        sync.Mutex
	newest    map[int]run.Key
	claims    map[run.Key]*claim
	executors map[string]string // journal by id
	removed   map[string]bool
	frames    map[run.Key][]run.Frame
	batches   map[run.Key]map[int64]int64 // last by first
	slots     map[string]int
	down      bool
	shipDown  bool
	tolerant  bool // batches may overlap: the journal that knew the bounds was lost
}

type claim struct {
	executor, journal string
	closed            bool
}

func newDeskService(w *world) *deskService {
	return &deskService{
		w: w, newest: map[int]run.Key{}, claims: map[run.Key]*claim{}, executors: map[string]string{},
		removed: map[string]bool{}, frames: map[run.Key][]run.Frame{}, batches: map[run.Key]map[int64]int64{},
		slots: map[string]int{},
	}
}

func (s *deskService) queue(key run.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest[key.Task] = key
}

func (s *deskService) closeClaim(key run.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[key]; c != nil {
		c.closed = true
	}
}

func (s *deskService) holder(key run.Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[key]; c != nil {
		return c.executor
	}
	return ""
}

func (s *deskService) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *deskService) setShipDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shipDown = down
}

func (s *deskService) put(key run.Key, c claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[key] = &c
}

func (s *deskService) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[id] = true
}

func (s *deskService) reach(id string) error {
	switch {
	case s.down:
		return run.Errorf(run.CodeUnavailable, "the desk is away")
	case s.removed[id]:
		return run.Errorf(run.CodeForbidden, "removed")
	}
	return nil
}

func (s *deskService) Register(_ context.Context, e run.Executor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(e.ID); err != nil {
		return err
	}
	s.executors[e.ID] = e.JournalID
	return nil
}

func (s *deskService) Renew(_ context.Context, r run.Renewal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(r.Executor); err != nil {
		return err
	}
	if s.executors[r.Executor] != r.JournalID {
		return run.Errorf(run.CodeNotFound, "not registered")
	}
	s.slots[r.Executor] = r.SlotsUsed
	return nil
}

func (s *deskService) Claim(_ context.Context, c run.ClaimRequest) (run.Definition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(c.Executor); err != nil {
		return run.Definition{}, err
	}
	have := s.claims[c.Key]
	switch {
	case s.newest[c.Key.Task] != c.Key:
		return run.Definition{}, run.Errorf(run.CodeConflict, "not the newest dispatch")
	case have == nil:
		s.claims[c.Key] = &claim{executor: c.Executor, journal: c.JournalID}
	case have.closed || have.executor != c.Executor || have.journal != c.JournalID:
		return run.Definition{}, run.Errorf(run.CodeConflict, "claimed")
	}
	return run.Definition{Key: c.Key, Task: "task", Steps: []run.StepDef{{Script: "true"}}, Grace: 2 * time.Second}, nil
}

func (s *deskService) Ship(_ context.Context, b run.FrameBatch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shipDown {
		return run.Errorf(run.CodeUnavailable, "the desk takes no frames")
	}
	if err := s.reach(b.Executor); err != nil {
		return err
	}
	if c := s.claims[b.Key]; c == nil || c.executor != b.Executor {
		return run.Errorf(run.CodeConflict, "not the claim's")
	}
	if s.tolerant {
		return nil
	}
	first, last := b.Frames[0].N, b.Frames[len(b.Frames)-1].N
	if s.batches[b.Key] == nil {
		s.batches[b.Key] = map[int64]int64{}
	}
	if known, ok := s.batches[b.Key][first]; ok {
		if known != last {
			s.w.t.Errorf("batch %d of %s changed its end from %d to %d", first, b.Key, known, last)
		}
		return nil
	}
	have := s.frames[b.Key]
	if int64(len(have))+1 != first {
		s.w.t.Errorf("batch of %s begins with %d after %d frames", b.Key, first, len(have))
		return nil
	}
	s.batches[b.Key][first] = last
	s.frames[b.Key] = append(have, b.Frames...)
	return nil
}

func (s *deskService) ClaimStates(_ context.Context, id string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(id); err != nil {
		return nil, err
	}
	states := map[run.Key]run.ClaimState{}
	for _, key := range keys {
		switch c := s.claims[key]; {
		case c == nil:
			states[key] = run.ClaimUnknown
		case c.closed:
			states[key] = run.ClaimClosed
		default:
			states[key] = run.ClaimOpen
		}
	}
	return states, nil
}

// log returns the frames that are stored of a key.
func (s *deskService) log(key run.Key) []run.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames[key])
}

// process is one executor process on a host.
type process struct {
	w     *world
	host  *host
	agent *executor.Agent

	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of Run

	mu     sync.Mutex
	dead   bool
	frozen chan struct{} // closed at the thaw; nil: it runs
}

// gate is passed before and after everything that a process does to others.
func (p *process) gate() error {
	for {
		p.mu.Lock()
		dead, frozen := p.dead, p.frozen
		p.mu.Unlock()
		switch {
		case dead:
			return run.Errorf(run.CodeUnavailable, "the process is dead")
		case frozen == nil:
			return nil
		}
		select {
		case <-frozen:
		case <-p.w.ctx.Done():
			return p.w.ctx.Err()
		}
	}
}

// through makes a call as the process does.
func through[T any](p *process, f func() (T, error)) (T, error) {
	if err := p.gate(); err != nil {
		var zero T
		return zero, err
	}
	v, err := f()
	if gateErr := p.gate(); gateErr != nil {
		return v, gateErr
	}
	return v, err
}

func do(p *process, f func() error) error {
	_, err := through(p, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// kill ends the process as SIGKILL does.
func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
	p.mu.Unlock()
	p.agent.Seal()
	p.cancel()
	if err := p.agent.Unlock(); err != nil {
		p.w.t.Error(err)
	}
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// freeze stops the process for a while, as SIGSTOP does.
func (p *process) freeze(d time.Duration) {
	p.mu.Lock()
	if p.frozen == nil && !p.dead {
		frozen := make(chan struct{})
		p.frozen = frozen
		p.w.group.Go(func() {
			p.w.sleep(d)
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.frozen == frozen {
				close(frozen)
				p.frozen = nil
			}
		})
	}
	p.mu.Unlock()
	_ = p.gate()
}

type procTokens struct{ *process }

func (p procTokens) Heartbeat(_ context.Context, token []byte, d executor.HeartbeatDetails) error {
	return do(p.process, func() error { return p.w.tokens.heartbeat(token, d) })
}

func (p procTokens) Complete(_ context.Context, token []byte, out executor.Outcome) error {
	return do(p.process, func() error { return p.w.tokens.complete(token, out) })
}

type procDesk struct{ *process }

func (p procDesk) Register(ctx context.Context, e run.Executor) error {
	return do(p.process, func() error { return p.w.desk.Register(ctx, e) })
}

func (p procDesk) Renew(ctx context.Context, r run.Renewal) error {
	return do(p.process, func() error { return p.w.desk.Renew(ctx, r) })
}

func (p procDesk) Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error) {
	return through(p.process, func() (run.Definition, error) { return p.w.desk.Claim(ctx, c) })
}

func (p procDesk) Ship(ctx context.Context, b run.FrameBatch) error {
	return do(p.process, func() error { return p.w.desk.Ship(ctx, b) })
}

func (p procDesk) ClaimStates(ctx context.Context, id string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	return through(p.process, func() (map[run.Key]run.ClaimState, error) { return p.w.desk.ClaimStates(ctx, id, keys) })
}

// start starts an executor process on the host.
func (h *host) start(hook func(p *process, point string, key run.Key)) *process {
	h.w.t.Helper()
	p := &process{w: h.w, host: h, ended: make(chan struct{})}
	o := executor.Options{Pool: "pool", Slots: h.slots, StateDir: h.dir, DrainFinish: h.drainFinish}
	if hook != nil {
		o.Interfere = func(point string, key run.Key) { hook(p, point, key) }
	}
	logger := slog.New(slog.DiscardHandler)
	if testing.Verbose() && os.Getenv("DROVER_TEST_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(h.w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	agent, err := executor.NewAgent(executor.Deps{
		Driver: &procDriver{process: p}, Desk: procDesk{p}, Tokens: procTokens{p}, Logger: logger,
	}, o)
	require.NoError(h.w.t, err)
	p.agent = agent
	ctx, cancel := context.WithCancel(h.w.ctx)
	p.cancel = cancel
	h.w.group.Go(func() {
		defer close(p.ended)
		p.err = agent.Run(ctx)
	})
	for range h.slots {
		h.w.group.Go(func() { p.takeTasks(ctx) })
	}
	h.w.group.Go(func() { p.takeOrders(ctx) })
	return p
}

// takeTasks is what the worker of the pool does.
func (p *process) takeTasks(ctx context.Context) {
	for ctx.Err() == nil {
		if err := p.agent.Reserve(ctx); err != nil {
			return
		}
		if d := p.w.tokens.poll(ctx, "pool"); d != nil && p.gate() == nil {
			out := p.agent.Execute(ctx, executor.Delivery{
				Key: d.key, Token: []byte(d.token), Attempt: d.attempt, Last: d.details,
			})
			p.answer(d, out)
		}
		p.agent.Unreserve()
	}
}

// takeOrders is what the worker of the executor's own queue does.
func (p *process) takeOrders(ctx context.Context) {
	for ctx.Err() == nil {
		d := p.w.tokens.poll(ctx, "executor:"+p.agent.ID())
		if d == nil || p.gate() != nil {
			return
		}
		out, err := p.agent.Adopt(ctx, executor.Adoption{Key: d.key, Token: []byte(d.token), JournalID: d.journal})
		if err == nil {
			p.answer(d, out)
		}
	}
}

func (p *process) answer(d *delivery, out executor.Outcome) {
	if !out.Pending() {
		_ = do(p, func() error { return p.w.tokens.complete([]byte(d.token), out) })
	}
}

// journalKeys returns the keys that the journal of a host has files of.
func (h *host) journalKeys() []string {
	list, err := os.ReadDir(filepath.Join(h.dir, "journal"))
	require.NoError(h.w.t, err)
	var keys []string
	for _, d := range list {
		if key, ok := strings.CutSuffix(d.Name(), ".jsonl"); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// lastClaim returns the newest key of a task that was claimed.
func (s *deskService) lastClaim(task int) run.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last run.Key
	for key := range s.claims {
		if key.Task == task && (last.Run == "" || last.Before(key)) {
			last = key
		}
	}
	return last
}

// dump returns the journal of a host, and how its claims stand.
func (h *host) dump() string {
	var b strings.Builder
	for _, key := range h.journalKeys() {
		content, err := os.ReadFile(filepath.Join(h.dir, "journal", key+".jsonl"))
		fmt.Fprintf(&b, "%s: %v\n%s", key, err, content)
	}
	h.w.desk.mu.Lock()
	defer h.w.desk.mu.Unlock()
	for key, c := range h.w.desk.claims {
		fmt.Fprintf(&b, "claim %s: %+v\n", key, *c)
	}
	return b.String()
}

// dump returns the deliveries that are not closed.
func (s *tokenService) dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, d := range s.byToken {
		if !d.closed {
			fmt.Fprintf(&b, "open: %s of %s, token %s, last %s, details %+v\n", d.kind, d.key, d.token, d.last, d.details)
		}
	}
	for q, list := range s.queues {
		for _, d := range list {
			fmt.Fprintf(&b, "queued in %s: %s of %s\n", q, d.kind, d.key)
		}
	}
	return b.String()
}
