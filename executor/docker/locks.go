package docker

import (
	"context"
	"sync"

	"github.com/drover-run/drover/run"
)

// keyLocks lets one caller at a time start or remove the environment of a key.
// The zero value is ready.
type keyLocks struct {
	mu   sync.Mutex
	held map[run.Key]*keyLock
}

type keyLock struct {
	token chan struct{} // holds one token while locked
	users int           // who hold it or wait for it
}

// lock waits for the key's lock and returns how to release it. The error has
// CodeCanceled or CodeTimeout.
func (l *keyLocks) lock(ctx context.Context, key run.Key) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[run.Key]*keyLock)
	}
	k := l.held[key]
	if k == nil {
		k = &keyLock{token: make(chan struct{}, 1)}
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
		return nil, daemonError(context.Cause(ctx), "waiting for another call about %s", key)
	}
}
