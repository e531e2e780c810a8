package executor_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// deskService is a fake of the gateway and the records.
type deskService struct {
	fault  string   // of every definition
	hidden []string // its secrets
	shelf  shelf
	wanted run.Wanted  // of every executor
	last   run.Renewal // the latest

	w *world

	mu        sync.Mutex
	newest    map[int]run.Key
	over      map[int]run.Key // the newest key of each task that no executor may claim any more
	claims    map[run.Key]*claim
	executors map[string]string // journal by id
	sets      map[string]string // by id, of members
	removed   map[string]bool
	frames    map[run.Key][]run.Frame
	batches   map[run.Key]map[int64]int64 // last by first
	slots     map[string]int
	down      bool
	shipDown  bool
	tolerant  bool // batches may overlap: the journal with their bounds was lost
}

type claim struct {
	executor, journal string
	closed            bool
	asked             int // number of times it was granted
}

func newDeskService(w *world) *deskService {
	return &deskService{
		w: w, newest: map[int]run.Key{}, over: map[int]run.Key{}, sets: map[string]string{}, claims: map[run.Key]*claim{}, executors: map[string]string{},
		removed: map[string]bool{}, frames: map[run.Key][]run.Frame{}, batches: map[run.Key]map[int64]int64{},
		slots: map[string]int{}, shelf: shelf{seen: map[string]string{}},
	}
}

func (s *deskService) queue(key run.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest[key.Task] = key
}

// closeClaim records that the task has ended, or will be queued again.
func (s *deskService) closeClaim(key run.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over[key.Task] = key
}

// dispatch returns the newest dispatch of a task, 0 for none.
func (s *deskService) dispatch(task int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest[task].Dispatch
}

// release replaces a key by another dispatch, unless the key has an open claim that
// the outcome does not release.
func (s *deskService) release(key run.Key, d *delivery) bool {
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
func (s *deskService) isOver(key run.Key) bool {
	return key == s.over[key.Task] || key.Before(s.newest[key.Task])
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
		return run.Errorf(run.CodeUnavailable, "the executor API is unavailable")
	case s.removed[id]:
		return run.Errorf(run.CodeForbidden, "removed")
	}
	return nil
}

func (s *deskService) Register(_ context.Context, e run.Executor) (run.Wanted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(e.ID); err != nil {
		return run.Wanted{}, err
	}
	s.executors[e.ID] = e.JournalID
	if e.Set != "" {
		s.sets[e.ID] = e.Set
	}
	return s.wanted, nil
}

func (s *deskService) Renew(_ context.Context, r run.Renewal) (run.Wanted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(r.Executor); err != nil {
		return run.Wanted{}, err
	}
	if s.executors[r.Executor] != r.JournalID {
		return run.Wanted{}, run.Errorf(run.CodeNotFound, "not registered")
	}
	s.slots[r.Executor] = r.SlotsUsed
	s.last = r
	return s.wanted, nil
}

func (s *deskService) setOf(executor string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets[executor]
}

// is reports whether two executors are the same or members of the same set.
func (s *deskService) is(one, other string) bool {
	return one == other || s.sets[one] != "" && s.sets[one] == s.sets[other]
}

func (s *deskService) Claim(_ context.Context, c run.ClaimRequest) (run.Definition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(c.Executor); err != nil {
		return run.Definition{}, err
	}
	have := s.claims[c.Key]
	switch {
	case s.newest[c.Key.Task] != c.Key, s.isOver(c.Key):
		return run.Definition{}, run.Errorf(run.CodeConflict, "not the newest dispatch")
	case have == nil:
		s.claims[c.Key] = &claim{executor: c.Executor, journal: c.JournalID}
	case have.closed || !s.is(have.executor, c.Executor) || have.journal != c.JournalID:
		return run.Definition{}, run.Errorf(run.CodeClaimed, "claimed")
	}
	s.claims[c.Key].asked++
	s.claims[c.Key].executor = c.Executor
	return run.Definition{Key: c.Key, Task: "task", Steps: []run.StepDef{{Script: "true"}}, Grace: 2 * time.Second, Fault: s.fault, Secrets: s.hidden}, nil
}

func (s *deskService) Ship(_ context.Context, b run.FrameBatch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shipDown {
		return run.Errorf(run.CodeUnavailable, "the executor API accepts no frames")
	}
	if err := s.reach(b.Executor); err != nil {
		return err
	}
	if c := s.claims[b.Key]; c == nil || !s.is(c.executor, b.Executor) {
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
		case c == nil && s.isOver(key):
			states[key] = run.ClaimVoid
		case c == nil:
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
func (s *deskService) log(key run.Key) []run.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames[key])
}

// asked returns the number of times the claim of a key was granted.
func (s *deskService) asked(key run.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[key]; c != nil {
		return c.asked
	}
	return 0
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
