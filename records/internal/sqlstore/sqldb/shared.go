package sqldb

import (
	"sync"
	"time"
)

// Shared keeps the results of expensive reads, by a name, so that their cost does not grow
// with the number of callers: one of them reads, and the others take what was read last.
// Results of cheap reads are not kept, so they are always new.
type Shared[T any] struct {
	lifetime time.Duration

	mu   sync.Mutex
	kept map[string]*sharedResult[T]
}

type sharedResult[T any] struct {
	value   T
	read    int64
	reading bool // by one caller; the others take what is there
}

// NewShared returns a Shared that keeps a result for a time.
func NewShared[T any](lifetime time.Duration) *Shared[T] {
	return &Shared[T]{lifetime: lifetime, kept: map[string]*sharedResult[T]{}}
}

// Of returns the result of read, or one that is kept. Callers must not change it. read gets
// the last result if it was kept, and reports whether the new one is expensive.
func (s *Shared[T]) Of(name string, now int64, read func(last T) (value T, expensive bool, err error)) (T, error) {
	s.mu.Lock()
	k := s.kept[name]
	if k != nil {
		if age := time.Duration(now - k.read); k.reading || age >= 0 && age < s.lifetime {
			s.mu.Unlock()
			return k.value, nil
		}
		k.reading = true
	}
	s.mu.Unlock()
	return s.read(name, now, k, read)
}

// read reads a result. k is the one that is kept, which no other caller replaces meanwhile.
func (s *Shared[T]) read(name string, now int64, k *sharedResult[T], read func(last T) (T, bool, error)) (value T, err error) {
	expensive, done := false, false
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case done && expensive:
			s.kept[name] = &sharedResult[T]{value: value, read: now}
		case done && k != nil:
			delete(s.kept, name)
		case k != nil: // it failed, or panicked
			k.reading = false
		}
	}()
	var last T
	if k != nil {
		last = k.value
	}
	value, expensive, err = read(last)
	done = err == nil
	return value, err
}
