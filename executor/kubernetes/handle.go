package kubernetes

import (
	"context"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

// handle is an environment: a pod.
type handle struct {
	driver *Driver
	key    run.Key
	pod    string
	uid    types.UID
	nonce  string // prefix of the shim's lines in the container's log
	fault  error  // the shim refused its order: no step has run, or will
	// secrets are those of the definition; nil for a task that another process started.
	secrets *mask.Set
}

var _ executor.Handle = (*handle)(nil)

// Events implements executor.Handle.
func (h *handle) Events(ctx context.Context, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		if h.fault != nil {
			yield(run.Frame{}, h.fault)
			return
		}
		f := &follower{handle: h, next: from, yield: func(frame run.Frame) bool { return yield(frame, nil) }}
		if err := f.follow(ctx, h.driver.take(h.key)); err != nil && !f.done {
			yield(run.Frame{}, err)
		}
	}
}

// Stop implements executor.Handle.
func (h *handle) Stop(ctx context.Context, grace time.Duration) error {
	return h.stop(ctx, grace, false)
}

// Abort implements executor.Handle.
func (h *handle) Abort(ctx context.Context, grace time.Duration) error {
	return h.stop(ctx, grace, true)
}

func (h *handle) stop(ctx context.Context, grace time.Duration, abort bool) error {
	err := h.driver.stop(ctx, h.pod, grace, abort)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The end of a container also ends the call into it, and the container is
	// reported as running for a while.
	timeout, cancel := context.WithTimeout(ctx, statusLag)
	defer cancel()
	over := h.driver.await(timeout, h.pod, func(pod *corev1.Pod) (bool, error) {
		return pod == nil || pod.UID != h.uid || isOver(pod), nil
	})
	if over == nil {
		return nil
	}
	return err
}

// Remove implements executor.Handle.
func (h *handle) Remove(ctx context.Context) error {
	unlock, err := h.driver.locks.Lock(ctx, h.key)
	if err != nil {
		return ServerError(err, "wait for another operation on %s", h.key)
	}
	defer unlock()
	if s := h.driver.take(h.key); s != nil {
		s.close()
	}
	return h.driver.removeAll(ctx, h.key)
}
