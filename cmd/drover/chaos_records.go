//go:build chaos

package main

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// recordsFailpoint kills this process once, at the point that
// DROVER_CHAOS_KILL names: a point of a creation, or of the work that follows a
// change. It creates the file that DROVER_CHAOS_ONCE names when it does. The
// points are before and after transactions: "creating" and "created", "changed"
// (by a client's call on a run), "begun", "granting" and "granted", "ending" and
// "ended", "deleting" (the retention has deleted a run, and is about to delete
// another); and, with a colon and the kind of an outbox row, "taken" (not
// delivered yet), "delivered" (and not closed yet) and "closed".
func recordsFailpoint(s records.Store) records.Store {
	point := os.Getenv("DROVER_CHAOS_KILL")
	if point == "" {
		return s
	}
	return &killer{Store: s, point: point, once: os.Getenv("DROVER_CHAOS_ONCE"), kinds: map[int64]records.OutboxKind{}}
}

// killer is a record store that kills the process at a point.
type killer struct {
	records.Store
	point, once string

	mu    sync.Mutex
	kinds map[int64]records.OutboxKind // of the outbox rows taken, by id
}

func (k *killer) at(point string) {
	if point != k.point {
		return
	}
	f, err := os.OpenFile(k.once, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return // killed once already
	}
	_ = f.Close()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the caller must not continue
}

// CreateRun implements records.Store, and so do the methods below.
func (k *killer) CreateRun(ctx context.Context, r records.NewRun) (run.Run, error) {
	k.at("creating")
	created, err := k.Store.CreateRun(ctx, r)
	if err == nil {
		k.at("created")
	}
	return created, err
}

func (k *killer) changed(err error) error {
	if err == nil {
		k.at("changed")
	}
	return err
}

func (k *killer) StartRun(ctx context.Context, id run.ID, token run.Token) error {
	return k.changed(k.Store.StartRun(ctx, id, token))
}

func (k *killer) CancelRun(ctx context.Context, id run.ID, token run.Token) error {
	return k.changed(k.Store.CancelRun(ctx, id, token))
}

func (k *killer) StopRun(ctx context.Context, id run.ID, token run.Token) error {
	return k.changed(k.Store.StopRun(ctx, id, token))
}

func (k *killer) ForceStopRun(ctx context.Context, id run.ID, token run.Token) error {
	return k.changed(k.Store.ForceStopRun(ctx, id, token))
}

func (k *killer) EndRun(ctx context.Context, id run.ID, token run.Token, force bool) (run.ActionKind, error) {
	done, err := k.Store.EndRun(ctx, id, token, force)
	return done, k.changed(err)
}

func (k *killer) ApproveTask(ctx context.Context, id run.ID, task, subject string, token run.Token) error {
	return k.changed(k.Store.ApproveTask(ctx, id, task, subject, token))
}

func (k *killer) RejectTask(ctx context.Context, id run.ID, task, subject, reason string, token run.Token) error {
	return k.changed(k.Store.RejectTask(ctx, id, task, subject, reason, token))
}

func (k *killer) Begin(ctx context.Context, id run.ID) (run.Progress, error) {
	status, err := k.Store.Begin(ctx, id)
	if err == nil {
		k.at("begun")
	}
	return status, err
}

func (k *killer) Apply(ctx context.Context, id run.ID, c records.Changes) (run.Progress, []run.TaskStatus, error) {
	if c.Finish {
		k.at("ending")
	}
	status, tasks, err := k.Store.Apply(ctx, id, c)
	if c.Finish && err == nil {
		k.at("ended")
	}
	return status, tasks, err
}

func (k *killer) DeleteRuns(ctx context.Context, q run.DeleteQuery) (run.Deleted, error) {
	if throttle, deleted := q.Throttle, 0; throttle != nil {
		q.Throttle = func(ctx context.Context) error {
			if deleted++; deleted > 1 {
				k.at("deleting")
			}
			return throttle(ctx)
		}
	}
	return k.Store.DeleteRuns(ctx, q)
}

func (k *killer) Grant(ctx context.Context, name string) (granted []records.Grant, more bool, err error) {
	k.at("granting")
	granted, more, err = k.Store.Grant(ctx, name)
	if len(granted) > 0 {
		k.at("granted")
	}
	return granted, more, err
}

func (k *killer) TakeOutbox(ctx context.Context, n int, lease time.Duration) ([]records.OutboxRow, error) {
	rows, err := k.Store.TakeOutbox(ctx, n, lease)
	for _, row := range rows {
		k.mu.Lock()
		k.kinds[row.ID] = row.Kind
		k.mu.Unlock()
		k.at("taken:" + string(row.Kind))
	}
	return rows, err
}

func (k *killer) CompleteOutbox(ctx context.Context, id int64) error {
	k.mu.Lock()
	kind := string(k.kinds[id])
	delete(k.kinds, id)
	k.mu.Unlock()
	k.at("delivered:" + kind)
	err := k.Store.CompleteOutbox(ctx, id)
	k.at("closed:" + kind)
	return err
}
