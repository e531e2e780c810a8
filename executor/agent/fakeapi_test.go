package agent_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// fakeAPI is a fake of the gateway and the records.
type fakeAPI struct {
	fault    string   // of every definition
	hidden   []string // its secrets
	provided bool     // some are of a provider
	old      bool     // it stores no output of services
	services []run.ServiceSpec
	auth     map[string]run.Auth
	archives archiveStore
	desired  run.DesiredState // of every executor
	last     run.Renewal      // the latest

	w *testEnv

	mu         sync.Mutex
	newest     map[int]run.Key
	over       map[int]run.Key // the newest key of each task that no executor may claim any more
	claims     map[run.Key]*claim
	executors  map[string]string // journal by id
	sets       map[string]string // by id, of members
	removed    map[string]bool
	frames     map[run.Key][]run.Frame
	batches    map[run.Key]map[int64]int64 // last by first
	slots      map[string]int
	down       bool
	framesDown bool
	downAfter  run.Stream // after a batch with its output, framesDown is set
	full       bool       // the pool runs as many tasks as it may
	refused    int        // claims that were refused for that reason
	tolerant   bool       // batches may overlap: the journal with their bounds was lost
}

type claim struct {
	executor, journal string
	closed            bool
	grants            int // number of times it was granted
}

func newFakeAPI(w *testEnv) *fakeAPI {
	return &fakeAPI{
		w: w, newest: map[int]run.Key{}, over: map[int]run.Key{}, sets: map[string]string{}, claims: map[run.Key]*claim{}, executors: map[string]string{},
		removed: map[string]bool{}, frames: map[run.Key][]run.Frame{}, batches: map[run.Key]map[int64]int64{},
		slots: map[string]int{}, archives: archiveStore{seen: map[string]string{}},
	}
}

func (s *fakeAPI) queue(key run.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest[key.Task] = key
}

// closeClaim records that the task has ended, or will be queued again.
func (s *fakeAPI) closeClaim(key run.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over[key.Task] = key
}

// dispatch returns the newest dispatch of a task, 0 for none.
func (s *fakeAPI) dispatch(task int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest[task].Dispatch
}

// release replaces a key by another dispatch, unless the key has an open claim that
// the outcome does not release.
func (s *fakeAPI) release(key run.Key, d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[key]; c != nil && c.journal != d.out.JournalID {
		return false
	}
	next := key
	next.Dispatch++
	s.newest[key.Task] = next
	return true
}

// isOver reports whether a key was closed. The caller holds the lock.
func (s *fakeAPI) isOver(key run.Key) bool {
	return key == s.over[key.Task] || key.Before(s.newest[key.Task])
}

func (s *fakeAPI) holder(key run.Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[key]; c != nil {
		return c.executor
	}
	return ""
}

// journalOf returns the journal that an executor registered.
func (s *fakeAPI) journalOf(executor string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.executors[executor]
}

// change changes the fake.
func (s *fakeAPI) change(f func(s *fakeAPI)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *fakeAPI) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *fakeAPI) setFramesDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.framesDown = down
}

func (s *fakeAPI) put(key run.Key, c claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[key] = &c
}

func (s *fakeAPI) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[id] = true
}

func (s *fakeAPI) reach(id string) error {
	switch {
	case s.down:
		return run.Errorf(run.CodeUnavailable, "the executor API is unavailable")
	case s.removed[id]:
		return run.Errorf(run.CodeForbidden, "removed")
	}
	return nil
}

func (s *fakeAPI) Register(_ context.Context, e run.Executor) (run.DesiredState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(e.ID); err != nil {
		return run.DesiredState{}, err
	}
	s.executors[e.ID] = e.JournalID
	if e.Set != "" {
		s.sets[e.ID] = e.Set
	}
	return s.desired, nil
}

func (s *fakeAPI) Renew(_ context.Context, r run.Renewal) (run.DesiredState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(r.Executor); err != nil {
		return run.DesiredState{}, err
	}
	if s.executors[r.Executor] != r.JournalID {
		return run.DesiredState{}, run.Errorf(run.CodeNotFound, "not registered")
	}
	s.slots[r.Executor] = r.SlotsUsed
	s.last = r
	return s.desired, nil
}

func (s *fakeAPI) setOf(executor string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets[executor]
}

// sameHolder reports whether two executors are the same or members of the same set.
func (s *fakeAPI) sameHolder(one, other string) bool {
	return one == other || s.sets[one] != "" && s.sets[one] == s.sets[other]
}

func (s *fakeAPI) Claim(_ context.Context, c run.ClaimRequest) (run.Definition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(c.Executor); err != nil {
		return run.Definition{}, err
	}
	have := s.claims[c.Key]
	switch {
	case s.newest[c.Key.Task] != c.Key, s.isOver(c.Key):
		return run.Definition{}, run.Errorf(run.CodeConflict, "not the newest dispatch")
	case have == nil && s.full:
		s.refused++
		return run.Definition{}, run.Errorf(run.CodeExhausted, "the pool is full")
	case have == nil:
		s.claims[c.Key] = &claim{executor: c.Executor, journal: c.JournalID}
	case have.closed || !s.sameHolder(have.executor, c.Executor) || have.journal != c.JournalID:
		return run.Definition{}, run.Errorf(run.CodeClaimed, "claimed")
	}
	s.claims[c.Key].grants++
	s.claims[c.Key].executor = c.Executor
	return run.Definition{Key: c.Key, Task: "task", Steps: []run.StepDef{{Script: "true"}}, Grace: 2 * time.Second, Fault: s.fault, Secrets: s.hidden, Auth: s.auth, ProviderSecrets: s.provided, ServiceLogs: !s.old, Services: s.services}, nil
}

func (s *fakeAPI) AppendFrames(_ context.Context, b run.FrameBatch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.framesDown {
		return run.Errorf(run.CodeUnavailable, "the executor API accepts no frames")
	}
	if err := s.reach(b.Executor); err != nil {
		return err
	}
	if c := s.claims[b.Key]; c == nil || !s.sameHolder(c.executor, b.Executor) {
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
	if s.downAfter != "" && slices.ContainsFunc(b.Frames, func(f run.Frame) bool { return f.Stream == s.downAfter }) {
		s.framesDown = true
	}
	return nil
}

func (s *fakeAPI) ClaimStates(_ context.Context, id string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(id); err != nil {
		return nil, err
	}
	states := map[run.Key]run.ClaimState{}
	for _, key := range keys {
		c := s.claims[key]
		claimed := c != nil && s.sameHolder(c.executor, id)
		switch {
		case !claimed && s.isOver(key):
			states[key] = run.ClaimUnclaimable
		case !claimed:
			states[key] = run.ClaimUnknown
		case c.closed || s.isOver(key):
			states[key] = run.ClaimClosed
		default:
			states[key] = run.ClaimOpen
		}
	}
	return states, nil
}

// log returns the frames that are stored of a key.
func (s *fakeAPI) log(key run.Key) []run.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames[key])
}

// grants returns the number of times the claim of a key was granted.
func (s *fakeAPI) grants(key run.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[key]; c != nil {
		return c.grants
	}
	return 0
}

// lastClaim returns the newest key of a task that was claimed.
func (s *fakeAPI) lastClaim(task int) run.Key {
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
