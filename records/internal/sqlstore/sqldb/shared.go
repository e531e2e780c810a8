package sqldb

import (
	"context"
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
	reading *reading[T] // by one caller; nil if there is none
}

// reading is a read in progress. Its fields are set when done is closed.
type reading[T any] struct {
	done  chan struct{}
	value T
	ok    bool // it did not fail
}

// NewShared returns a Shared that keeps a result for a time.
func NewShared[T any](lifetime time.Duration) *Shared[T] {
	return &Shared[T]{lifetime: lifetime, kept: map[string]*sharedResult[T]{}}
}

// Of returns the result of read, or one that is kept. Callers must not change it. While
// one of them reads, the others take what is kept if it is younger than twice the lifetime,
// and otherwise wait for the new result. read gets the last result if it was kept, and
// reports whether the new one is expensive.
func (s *Shared[T]) Of(ctx context.Context, name string, now int64, read func(last T) (value T, expensive bool, err error)) (T, error) {
	for {
		s.mu.Lock()
		k := s.kept[name]
		if k == nil {
			s.mu.Unlock()
			return s.read(name, now, nil, read)
		}
		age, other := time.Duration(now-k.read), k.reading
		switch {
		case age >= 0 && (age < s.lifetime || other != nil && age < 2*s.lifetime):
			s.mu.Unlock()
			return k.value, nil
		case other == nil:
			k.reading = &reading[T]{done: make(chan struct{})}
			s.mu.Unlock()
			return s.read(name, now, k, read)
		}
		s.mu.Unlock()
		select {
		case <-other.done:
			if other.ok {
				return other.value, nil
			}
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
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
		}
		if k != nil { // done is false if it failed, or panicked
			k.reading.value, k.reading.ok = value, done
			close(k.reading.done)
			k.reading = nil
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
