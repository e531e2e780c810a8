// Package keylock locks keys: one caller at a time has each. It imports
// nothing of Drover's.
package keylock

import (
	"context"
	"sync"
)

// Locks lets one caller at a time have a key. The zero value is ready, and
// keeps nothing of keys that nobody has or waits for. It must not be copied.
type Locks[K comparable] struct {
	mu   sync.Mutex
	held map[K]*lock
}

type lock struct {
	token chan struct{} // holds one token while locked
	users int           // who hold it or wait for it
}

// Lock waits for the key and returns how to release it, which must be called
// once. It fails only with ctx, whose cause it returns.
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
