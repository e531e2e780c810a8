package docker

import (
	"context"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
)

// containerEnd is the answer of the daemon to a wait.
type containerEnd struct {
	code int64 // exit code of the container
	err  error // of the daemon
}

// wait asks the daemon at once for the end or the removal of a container. The channel gets
// one answer, at the latest when ctx ends, which need not be received. The client's own
// channels would keep a goroutine, and with it a connection, until their answer is received.
func wait(ctx context.Context, cli *client.Client, id string, condition container.WaitCondition) <-chan containerEnd {
	answer := make(chan containerEnd, 1)
	ended, fault := cli.ContainerWait(ctx, id, condition)
	go func() {
		select {
		case r := <-ended:
			answer <- containerEnd{code: r.StatusCode}
		case err := <-fault:
			answer <- containerEnd{err: err}
		}
	}()
	return answer
}

// endsWithin reports whether the container ends within the given duration.
func (d *Driver) endsWithin(ctx context.Context, id string, span time.Duration) (bool, error) {
	watch, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	end := <-wait(watch, d.client, id, container.WaitConditionNotRunning)
	switch {
	case end.err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, daemonError(context.Cause(ctx), "wait for container %s", id)
	case watch.Err() != nil:
		return false, nil
	case cerrdefs.IsNotFound(end.err):
		return true, nil
	}
	return false, daemonError(end.err, "wait for container %s", id)
}
