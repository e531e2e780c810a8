package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
)

// maxGroup bounds how many calls share one transaction, and so how long the
// first of them waits for the others.
const maxGroup = 64

// errGroupPanicked is the error of the other calls of a group if one panics.
var errGroupPanicked = errors.New("another call broke the transaction off")

// write is one call of Write.
type write struct {
	ctx  context.Context //nolint:containedctx // of one call
	fn   func(sqldb.Querier) error
	err  error
	done chan struct{} // closed once err holds
}

func (w *write) end(err error) {
	w.err = err
	close(w.done)
}

// writes is the queue of calls that wait for the writing connection, oldest
// first.
type writes struct {
	mu      sync.Mutex
	waiting []*write
}

func (q *writes) add(w *write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, w)
}

// remove removes a call, and reports whether it was still queued.
func (q *writes) remove(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.waiting {
		if other == w {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take removes and returns the oldest calls.
func (q *writes) take() []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), maxGroup)
	group := q.waiting[:n:n]
	q.waiting = append([]*write(nil), q.waiting[n:]...)
	return group
}

// Write implements sqldb.Backend. A commit waits for the disk, so all calls
// that wait meanwhile share the next commit: the call that gets the connection
// runs them all. Each call is a savepoint, and fails alone.
func (b *backend) Write(ctx context.Context, fn func(sqldb.Querier) error) error {
	if ctx.Err() != nil {
		return ctxError(ctx)
	}
	w := &write{ctx: ctx, fn: fn, done: make(chan struct{})}
	b.writes.add(w)
	for {
		select {
		case <-w.done:
			return w.err
		case s, ok := <-b.writer:
			if !ok {
				b.writes.remove(w)
				return sql.ErrConnDone
			}
			b.runGroup(s) //nolint:contextcheck // each call of the group has its own
		case <-ctx.Done():
			if b.writes.remove(w) {
				return ctxError(ctx)
			}
			<-w.done // it is running, and checks its context itself
			return w.err
		}
	}
}

// runGroup runs a group of calls on the writing connection.
func (b *backend) runGroup(s *session) {
	defer func() { b.writer <- s }()
	group := b.writes.take()
	if len(group) == 0 {
		return
	}
	finished := false
	defer func() {
		if finished {
			return
		}
		for _, w := range group {
			w.end(errGroupPanicked)
		}
		_ = s.broken(errGroupPanicked)
	}()
	errs := s.transactAll(group)
	finished = true
	commits := 0
	for i, w := range group {
		if errs[i] == nil {
			commits++
		}
		w.end(errs[i])
	}
	if prev := b.commits.Add(int64(commits)) - int64(commits); prev/checkpointEvery != (prev+int64(commits))/checkpointEvery {
		select {
		case b.checkpointDue <- struct{}{}:
		default:
		}
	}
}

// transactAll runs calls in one transaction, and returns the error of each.
func (s *session) transactAll(group []*write) []error {
	errs := make([]error, len(group))
	if len(group) == 1 {
		errs[0] = s.transact(group[0].ctx, "BEGIN IMMEDIATE", group[0].fn)
		return errs
	}
	detached := context.WithoutCancel(group[0].ctx)
	err := s.connect(detached)
	if err == nil {
		err = s.beginAny(detached, group)
	}
	if err == nil {
		for i, w := range group {
			if errs[i], err = s.savepoint(w); err != nil {
				break
			}
		}
		if err == nil {
			if _, err = s.Exec(detached, "COMMIT"); err != nil {
				err = fmt.Errorf("commit: %w", err)
			}
		}
		if err != nil {
			if _, rollbackErr := s.Exec(detached, "ROLLBACK"); rollbackErr != nil {
				err = s.broken(err)
			}
		}
	}
	if err != nil {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
	return errs
}

// beginAny begins a transaction. It tries until the contexts of all calls have
// ended.
func (s *session) beginAny(ctx context.Context, group []*write) error {
	deadline := time.Now().Add(busyTimeout)
	for {
		err := s.tryBegin(ctx, deadline, "BEGIN IMMEDIATE")
		if err == nil || !errors.Is(err, errBusy) {
			return err
		}
		ended := 0
		for _, w := range group {
			if w.ctx.Err() != nil {
				ended++
			}
		}
		if ended == len(group) {
			return ctxError(group[0].ctx) //nolint:contextcheck // ctx is without the cancellation
		}
	}
}

// savepoint runs a call of a group. broken reports that the transaction is
// lost: SQLite rolls it back after some errors, such as a full disk.
func (s *session) savepoint(w *write) (err, broken error) {
	if w.ctx.Err() != nil {
		return ctxError(w.ctx), nil
	}
	detached := context.WithoutCancel(w.ctx)
	if _, err := s.Exec(detached, "SAVEPOINT call"); err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	err = w.fn(s)
	if err == nil && w.ctx.Err() != nil {
		err = ctxError(w.ctx)
	}
	if err != nil {
		if _, broken := s.Exec(detached, "ROLLBACK TO call"); broken != nil {
			return err, fmt.Errorf("roll back: %w", broken)
		}
	}
	if _, broken := s.Exec(detached, "RELEASE call"); broken != nil {
		return err, fmt.Errorf("commit: %w", broken)
	}
	return err, nil
}
