package docker

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

// handle is an environment: a main container, its volumes and its services.
type handle struct {
	driver *Driver
	key    run.Key
	id     string // of the main container
	nonce  string // prefix of the shim's lines
	// secrets are those of the definition; nil for a task that another process started.
	secrets *mask.Set
}

var _ executor.Handle = (*handle)(nil)

// Events implements executor.Handle.
func (h *handle) Events(ctx context.Context, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		f := &follower{handle: h, next: from, yield: func(frame run.Frame) bool {
			if frame.Kind == run.FrameTaskEnd {
				frame = executor.WithNotes(frame, h.endedServices(ctx, frame.Result))
			}
			return yield(frame, nil)
		}}
		err := f.follow(ctx)
		if errors.Is(err, journal.ErrDamaged) {
			err = f.damage(ctx, err)
		}
		if run.CodeOf(err) == run.CodeUnavailable && hasEnded(ctx) {
			// The end of the context also ends connections, and the client may report that.
			err = daemonError(context.Cause(ctx), "follow the task %s", h.key)
		}
		if err != nil && !f.done {
			yield(run.Frame{}, err)
		}
	}
}

// Stop implements executor.Handle. A file carries the grace period, since it
// may differ from the definition's. The signal alone requests the stop.
func (h *handle) Stop(ctx context.Context, grace time.Duration) error {
	return h.stop(ctx, shim.StopRequest{Grace: grace})
}

// Abort implements executor.Handle. Without its file the request would be one with a
// cleanup, so it fails if the file cannot be written.
func (h *handle) Abort(ctx context.Context, grace time.Duration) error {
	return h.stop(ctx, shim.StopRequest{Grace: grace, Abort: true})
}

func (h *handle) stop(ctx context.Context, r shim.StopRequest) error {
	request, unwritten := stopRequestArchive(r)
	if unwritten == nil {
		unwritten = taskFiles{h.driver}.write(ctx, h.id, request)
	}
	if cerrdefs.IsNotFound(unwritten) {
		return nil // removed
	}
	if unwritten != nil {
		h.driver.log.WarnContext(ctx, "failed to write a stop request", "key", h.key.String(), "error", unwritten)
	}
	err := h.driver.client.ContainerKill(ctx, h.id, "SIGTERM")
	switch {
	case cerrdefs.IsConflict(err) || cerrdefs.IsNotFound(err): // conflict: the container is not running any more
		return nil
	case err == nil && r.Abort:
		err = unwritten
	}
	if err == nil {
		return nil
	}
	return daemonError(err, "stop the task %s", h.key)
}

// Remove implements executor.Handle.
func (h *handle) Remove(ctx context.Context) error {
	unlock, err := h.driver.locks.Lock(ctx, h.key)
	if err != nil {
		return daemonError(err, "wait for another operation on %s", h.key)
	}
	defer unlock()
	if a := h.driver.take(h.key); a != nil {
		a.close()
	}
	return h.driver.removeAll(ctx, h.key)
}

// CopyTo implements executor.Handle. It does not reach into tmpfs mounts.
func (h *handle) CopyTo(ctx context.Context, dir string, tar io.Reader) error {
	err := h.driver.client.CopyToContainer(ctx, h.id, dir, tar, container.CopyToContainerOptions{AllowOverwriteDirWithFile: true})
	if err != nil {
		return daemonError(err, "copy into %s", dir)
	}
	return nil
}

// CopyFrom implements executor.Handle. It does not reach into tmpfs mounts.
func (h *handle) CopyFrom(ctx context.Context, path string) (io.ReadCloser, error) {
	content, _, err := h.driver.client.CopyFromContainer(ctx, h.id, path)
	if err != nil {
		return nil, daemonError(err, "copy from %s", path)
	}
	return content, nil
}
