package executors

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
)

// slotCounter is a Reserver with a number of free slots.
type slotCounter struct {
	free chan struct{}
}

func (s *slotCounter) Reserve(ctx context.Context, _ string) (func(), error) {
	select {
	case <-s.free:
		return s.release, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *slotCounter) release() { s.free <- struct{}{} }

// releaseInfo tells which permit is released.
type releaseInfo struct {
	worker.SlotReleaseInfo

	permit *worker.SlotPermit
}

func (r releaseInfo) Permit() *worker.SlotPermit { return r.permit }

func TestSlotSupplier(t *testing.T) {
	t.Parallel()
	slots := &slotCounter{free: make(chan struct{}, 1)}
	slots.release()
	s := &slotSupplier{slots: slots}
	permit, err := s.ReserveSlot(t.Context(), nil)
	require.NoError(t, err)
	require.NotNil(t, permit)
	require.Nil(t, s.TryReserveSlot(nil), "eager tasks are not taken")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.ReserveSlot(ctx, nil)
	require.ErrorIs(t, err, context.Canceled, "a worker that stops gets a cancelled context")
	s.ReleaseSlot(releaseInfo{permit: permit})
	_, err = s.ReserveSlot(t.Context(), nil)
	require.NoError(t, err)
}

// fakeWorker is a scripted worker.
type fakeWorker struct {
	worker.Worker

	err     error
	started time.Time
	stopped bool
}

func (w *fakeWorker) Start() error {
	w.started = time.Now()
	return w.err
}

func (w *fakeWorker) Stop() { w.stopped = true }

func TestExecutor_serve_creates_a_new_worker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var made []*fakeWorker
		var fail func(error)
		e := &Executor{log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			e.serve(ctx, func(fatal func(error)) (worker.Worker, error) {
				w := &fakeWorker{}
				if len(made) < 3 {
					w.err = errors.New("no server")
				}
				made, fail = append(made, w), fatal
				return w, nil
			})
		})
		advance(time.Minute)
		synctest.Wait()
		require.Len(t, made, 4)
		require.False(t, made[3].stopped)

		last := fail
		last(errors.New("the namespace was deleted"))
		last(errors.New("again"))
		advance(time.Minute)
		synctest.Wait()
		require.Len(t, made, 5)

		cancel()
		group.Wait()
		require.True(t, made[4].stopped)
	})
}

// advance advances virtual time.
func advance(d time.Duration) { <-time.After(d) }
