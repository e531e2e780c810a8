package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// Intervals of the journal, which takes the part of one in a cluster.
const (
	setRenew   = 3 * time.Second
	setValid   = 9 * time.Second
	setExpired = 12 * time.Second
	setLazy    = 10 * time.Second
)

// maxEntry is the largest entry, in bytes.
const maxEntry = 900 << 10

// set is the shared state of an executor set, which outlives all members.
type set struct {
	w    *testEnv
	name string
	h    *host // the cluster with the environments

	mu      sync.Mutex
	n       int
	entries map[run.Key]*setEntry
	leases  map[string]time.Time
	down    bool
	refuse  func(line []byte) error // of a line that is appended; nil: none
	largest int                     // size of an entry, in bytes
}

// setEntry is the entry of a key in the cluster.
type setEntry struct {
	holder  string
	term    int // number of changes of the holder
	version int // of the object: a delayed write has an older one
	content []byte
	stop    bool
	token   []byte
}

func (w *testEnv) newSet(name string, slots int) *set {
	return &set{w: w, name: name, h: w.newHost(slots), entries: map[run.Key]*setEntry{}, leases: map[string]time.Time{}}
}

// start starts a member.
func (s *set) start(hook func(p *process, point string, key run.Key)) *process {
	s.mu.Lock()
	s.n++
	id := fmt.Sprintf("%s-%d", s.name, s.n)
	s.mu.Unlock()
	p := s.h.newProcess()
	p.set = s
	j := &setJournal{set: s, p: p, id: id, open: map[run.Key]*setLines{}}
	s.h.launch(p, hook, agent.Options{ID: id}, j)
	return p
}

func (s *set) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// keys returns the keys that have entries.
func (s *set) keys() []run.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.entries))
}

// setJournal is the journal of one member.
type setJournal struct {
	set *set
	p   *process
	id  string

	mu      sync.Mutex
	renewed time.Time
	joined  bool
	open    map[run.Key]*setLines
}

var _ executor.Shared = (*setJournal)(nil)

func (j *setJournal) ID() string                             { return "journal-of-" + j.set.name }
func (j *setJournal) Set() string                            { return j.set.name }
func (j *setJournal) Load() ([]executor.JournalEntry, error) { return nil, nil }
func (j *setJournal) Close() error                           { return nil }

func (j *setJournal) Check() error {
	if err := j.p.runs(); err != nil {
		return err
	}
	return j.Valid()
}

func (j *setJournal) Valid() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.joined || time.Since(j.renewed) > setValid {
		return run.Errorf(run.CodeUnavailable, "not a member now")
	}
	return nil
}

func (j *setJournal) Has(key run.Key) bool {
	j.set.mu.Lock()
	defer j.set.mu.Unlock()
	return j.set.entries[key] != nil
}

// write makes a change as a member. It is called under the key's lock, where
// virtual time must not advance: a frozen process, which would continue the change
// later, repeats it later. A delayed change must check by itself whether the entry
// is still the same.
func (j *setJournal) write(change func(s *set) error) error {
	if err := j.Check(); err != nil {
		return err
	}
	what, delay := j.set.w.nextFault()
	j.set.mu.Lock()
	defer j.set.mu.Unlock()
	if j.set.down {
		return run.Errorf(run.CodeUnavailable, "the API server is unavailable")
	}
	switch what {
	case responseLost:
		_ = change(j.set)
	case requestDelayed:
		j.set.w.later(delay, func() {
			j.set.mu.Lock()
			defer j.set.mu.Unlock()
			_ = change(j.set)
		})
	case noFault:
		return change(j.set)
	}
	return errUnanswered
}

func (j *setJournal) Create(key run.Key, line []byte) (executor.Lines, error) {
	j.mu.Lock()
	busy := j.open[key] != nil
	j.mu.Unlock()
	if busy {
		return nil, run.Errorf(run.CodeConflict, "there is an entry of %s", key)
	}
	l := &setLines{j: j, key: key, content: append(bytes.Clone(line), '\n')}
	content := bytes.Clone(l.content)
	err := j.write(func(s *set) error {
		if s.entries[key] != nil {
			return run.Errorf(run.CodeConflict, "there is an entry of %s", key)
		}
		s.entries[key] = &setEntry{holder: j.id, content: content}
		return nil
	})
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[key] = l
	return l, nil
}

func (j *setJournal) Request(_ context.Context, key run.Key, o executor.KeyRequest) (found bool, err error) {
	err = j.write(func(s *set) error {
		p := s.entries[key]
		if p == nil {
			return run.Errorf(run.CodeNotFound, "there is no entry of %s", key)
		}
		p.stop = p.stop || o.Stop
		if o.Token != nil {
			p.token = o.Token
		}
		p.version++
		return nil
	})
	if run.CodeOf(err) == run.CodeNotFound {
		return false, nil
	}
	return err == nil, err
}

// Run implements executor.Shared by polling.
func (j *setJournal) Run(ctx context.Context, k executor.KeyHandler) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		began := time.Now()
		err := do(j.p, func() error {
			j.set.mu.Lock()
			defer j.set.mu.Unlock()
			if j.set.down {
				return run.Errorf(run.CodeUnavailable, "the API server is unavailable")
			}
			if time.Since(began) < setValid { // otherwise the freeze lost the request
				j.set.leases[j.id] = time.Now()
			}
			return nil
		})
		if err == nil {
			j.mu.Lock()
			j.renewed, j.joined = began, true
			j.mu.Unlock()
			j.poll(ctx, k, &group)
		}
		select {
		case <-time.After(setRenew / 3):
		case <-ctx.Done():
			_ = do(j.p, func() error {
				j.set.mu.Lock()
				defer j.set.mu.Unlock()
				delete(j.set.leases, j.id)
				return nil
			})
			return
		}
	}
}

// poll notifies the agent of changes.
func (j *setJournal) poll(ctx context.Context, k executor.KeyHandler, group *sync.WaitGroup) {
	j.set.mu.Lock()
	defer j.set.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, p := range j.set.entries {
		lines := j.open[key]
		if p.holder != j.id {
			if lines != nil {
				delete(j.open, key)
				group.Go(func() { k.Release(key) })
				continue
			}
			if at, ok := j.set.leases[p.holder]; ok && time.Since(at) < setExpired || !k.Accepting() {
				continue
			}
			p.holder = j.id
			p.term++
			p.version++
		}
		if lines == nil {
			lines = &setLines{j: j, key: key, term: p.term, content: bytes.Clone(p.content)}
			j.open[key] = lines
			journalEntry := executor.JournalEntry{Key: key, Content: bytes.Clone(p.content), Lines: lines}
			group.Go(func() {
				if k.Adopt(ctx, journalEntry) != nil {
					j.mu.Lock()
					defer j.mu.Unlock()
					delete(j.open, key)
				}
			})
			continue
		}
		if token := p.token; p.stop || token != nil {
			group.Go(func() {
				k.Deliver(ctx, key, executor.KeyRequest{Stop: p.stop, Token: token, Ack: func() { j.acknowledged(key, token) }})
			})
		}
		if lines.lazy && time.Since(lines.since) > setLazy {
			p.content, lines.lazy = bytes.Clone(lines.content), false
			p.version++
		}
	}
	for key := range j.open {
		if j.set.entries[key] == nil {
			delete(j.open, key)
			group.Go(func() { k.Release(key) })
		}
	}
}

func (j *setJournal) acknowledged(key run.Key, token []byte) {
	j.set.mu.Lock()
	defer j.set.mu.Unlock()
	if p := j.set.entries[key]; p != nil && bytes.Equal(p.token, token) {
		p.token = nil
		p.version++
	}
}

// setLines is an entry as the member that has it writes it.
type setLines struct {
	j    *setJournal
	key  run.Key
	term int

	// under the journal's lock
	content []byte
	lazy    bool
	since   time.Time
}

// update changes the entry, if this member still has it. A delayed change applies to
// the version that it was made for, or not at all.
func (l *setLines) update(change func(s *set, p *setEntry)) error {
	version := -1
	l.j.set.mu.Lock()
	if p := l.j.set.entries[l.key]; p != nil && p.holder == l.j.id && p.term == l.term {
		version = p.version
	}
	l.j.set.mu.Unlock()
	return l.j.write(func(s *set) error {
		p := s.entries[l.key]
		if p == nil || p.holder != l.j.id || p.term != l.term {
			return executor.ErrLost
		}
		if p.version != version {
			return run.Errorf(run.CodeUnavailable, "the entry has changed")
		}
		p.version++
		change(s, p)
		return nil
	})
}

// put writes the lines.
func (l *setLines) put(content []byte) error {
	err := l.update(func(_ *set, p *setEntry) { p.content = bytes.Clone(content) })
	if err == nil {
		l.j.mu.Lock()
		defer l.j.mu.Unlock()
		l.content, l.lazy = content, false
	}
	return err
}

func (l *setLines) with(line []byte) []byte {
	l.j.mu.Lock()
	defer l.j.mu.Unlock()
	return append(append(bytes.Clone(l.content), line...), '\n')
}

func (l *setLines) Append(line []byte, d executor.Durability) error {
	content := l.with(line)
	if len(content) > maxEntry {
		return run.Errorf(run.CodeTooLarge, "the entry is full")
	}
	if d != executor.Lazy {
		if err := l.j.set.check(line, content); err != nil {
			return err
		}
		return l.put(content)
	}
	l.j.mu.Lock()
	defer l.j.mu.Unlock()
	l.content, l.lazy, l.since = content, true, time.Now()
	return nil
}

// check returns the error of an append.
func (s *set) check(line, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.largest = max(s.largest, len(content))
	if s.refuse == nil {
		return nil
	}
	return s.refuse(line)
}

func (l *setLines) NeedsRewrite() bool {
	l.j.mu.Lock()
	defer l.j.mu.Unlock()
	return len(l.content) > 4<<10
}

func (l *setLines) Rewrite(line []byte) error { return l.put(append(bytes.Clone(line), '\n')) }

func (l *setLines) Remove() error {
	err := l.update(func(s *set, _ *setEntry) { delete(s.entries, l.key) })
	if err == nil {
		l.detach()
	}
	return err
}

func (l *setLines) Close() error {
	defer l.detach()
	l.j.mu.Lock()
	content, lazy := l.content, l.lazy
	l.j.mu.Unlock()
	if !lazy {
		return nil
	}
	return l.put(content)
}

// detach detaches the member from the entry.
func (l *setLines) detach() {
	l.j.mu.Lock()
	defer l.j.mu.Unlock()
	if l.j.open[l.key] == l {
		delete(l.j.open, l.key)
	}
}

// requireClean waits until no environment, entry or used slot is left.
func (s *set) requireClean(members ...*process) {
	s.w.t.Helper()
	s.w.await(10*time.Minute, func() (bool, string) {
		if n := len(s.h.keys()); n > 0 {
			return false, fmt.Sprintf("environments are left: %v\n%s", s.h.keys(), s.dump())
		}
		if n := len(s.keys()); n > 0 {
			return false, "entries are left\n" + s.dump()
		}
		for _, p := range members {
			select {
			case <-p.ended: // its keys belong to another member
				continue
			default:
			}
			if n := p.agent.SlotsInUse(); n != 0 {
				return false, fmt.Sprintf("%d slots of %s are in use", n, p.agent.ID())
			}
		}
		return true, ""
	})
}

func (s *set) dump() string {
	var b bytes.Buffer
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.entries {
		fmt.Fprintf(&b, "%s of %s: %s\n", key, p.holder, p.content)
	}
	s.w.api.mu.Lock()
	defer s.w.api.mu.Unlock()
	for key, c := range s.w.api.claims {
		fmt.Fprintf(&b, "claim %s: %+v\n", key, *c)
	}
	return b.String()
}

func TestSet_runs_tasks(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		s := w.newSet("blue", 2)
		members := []*process{s.start(nil), s.start(nil), s.start(nil)}
		var tasks []int
		for i := range 20 {
			tasks = append(tasks, i)
			w.submit(i)
		}
		w.awaitEnd(10*time.Minute, tasks...)
		w.requireOnce()
		for _, task := range tasks {
			require.Equal(t, run.StatusSuccess, w.outcome(task).Status)
			w.requireLog(task)
		}
		s.requireClean(members...)
	})
}

// TestSet_crash kills the member that has the task at every failpoint of the
// protocol. Another member continues the task within the heartbeat timeout and
// without the workflow.
func TestSet_crash(t *testing.T) {
	t.Parallel()
	for _, point := range agent.Failpoints() {
		t.Run(point, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				s := w.newSet("blue", 1)
				kill := once(point, (*process).kill)
				p := s.start(kill)
				w.submit(0)
				w.sleep(500 * time.Millisecond) // this member takes the task
				q, r := s.start(nil), s.start(nil)
				<-p.ended
				w.awaitEnd(5*time.Minute, 0)
				w.requireOnce()
				require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
				require.Equal(t, 1, w.startCount(0))
				if slices.Index(agent.Failpoints(), point) >= slices.Index(agent.Failpoints(), "claimed") {
					require.Zero(t, w.adoptions(), "another member takes over before Temporal notices")
				}
				s.requireClean(q, r)
				w.requireLog(0)
			})
		})
	}
}

// TestSet_freeze freezes the member that has the task at every failpoint, for less
// than its lease, for longer, and for longer than the heartbeat timeout. When it
// thaws, another member has the task, or the task has ended.
func TestSet_freeze(t *testing.T) {
	t.Parallel()
	for _, point := range agent.Failpoints() {
		for _, d := range []time.Duration{5 * time.Second, 14 * time.Second, 20 * time.Second, 35 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprintf("%s/for_%s", point, d), func(t *testing.T) {
				withTestEnv(t, func(t *testing.T, w *testEnv) {
					s := w.newSet("blue", 1)
					p := s.start(once(point, func(p *process) { p.freeze(d) }))
					w.submit(0)
					w.sleep(500 * time.Millisecond)
					q, r := s.start(nil), s.start(nil)
					w.awaitEnd(20*time.Minute, 0)
					w.requireOnce()
					require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
					require.Equal(t, 1, w.startCount(0))
					s.requireClean(p, q, r)
					w.requireLog(0)
				})
			})
		}
	}
}

// TestSet_failpoints blocks the one goroutine that reaches a failpoint, while the rest
// of the process continues to run and to renew its lease.
func TestSet_failpoints(t *testing.T) {
	t.Parallel()
	for _, point := range agent.Failpoints() {
		t.Run(point, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				s := w.newSet("blue", 1)
				p := s.start(once(point, func(*process) { w.sleep(time.Minute) }))
				w.submit(0)
				w.sleep(500 * time.Millisecond)
				q := s.start(nil)
				w.awaitEnd(20*time.Minute, 0)
				w.requireOnce()
				require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
				require.Equal(t, 1, w.startCount(0))
				s.requireClean(p, q)
				w.requireLog(0)
			})
		})
	}
}
