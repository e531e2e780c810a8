package shell

import (
	"context"
	"sync"

	"github.com/drover-run/drover/run"
)

// keyLocks serializes what is done to one key. The zero value is ready.
type keyLocks struct {
	mu    sync.Mutex
	locks map[run.Key]*keyLock
}

type keyLock struct {
	users int
	token chan struct{}
}

// lock waits for the key, at most as long as ctx lives.
func (l *keyLocks) lock(ctx context.Context, key run.Key) (unlock func(), err error) {
	l.mu.Lock()
	if l.locks == nil {
		l.locks = make(map[run.Key]*keyLock)
	}
	k := l.locks[key]
	if k == nil {
		k = &keyLock{token: make(chan struct{}, 1)}
		l.locks[key] = k
	}
	k.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.locks, key)
		}
	}
	select {
	case k.token <- struct{}{}:
		return func() { <-k.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, canceled(ctx)
	}
}

func canceled(ctx context.Context) error {
	err := context.Cause(ctx)
	return &run.Error{Code: run.CodeCanceled, Message: "given up: " + err.Error(), Err: err}
}
