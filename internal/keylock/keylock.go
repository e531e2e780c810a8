// Package keylock provides a mutex for each key. It imports no other package of
// this module.
package keylock

import (
	"context"
	"sync"
)

// Locks holds a lock for each key. The zero value is ready for use. Locks keeps no
// memory for keys that no caller holds or waits for. It must not be copied.
type Locks[K comparable] struct {
	mu   sync.Mutex
	held map[K]*lock
}

type lock struct {
	token chan struct{} // holds one token while locked
	users int           // callers that hold the lock or wait for it
}

// Lock locks the key and returns the function that unlocks it, which must be
// called once. If ctx ends first, Lock returns the cause of ctx. There are no other
// errors.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[K]*lock)
	}
	k := l.held[key]
	if k == nil {
		k = &lock{token: make(chan struct{}, 1)}
		l.held[key] = k
	}
	k.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case k.token <- struct{}{}:
		return func() { <-k.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
