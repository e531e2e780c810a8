package docker

import (
	"context"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/run"
)

// removeAll removes all containers of a key and their anonymous volumes. It
// does not list containers first: a listing takes longer the more containers
// exist, and the main container is removed meanwhile.
func (d *Driver) removeAll(ctx context.Context, key run.Key) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.removeContainer(ctx, d.options.mainName(key)) })
	group.Go(func() error { return d.removeServices(ctx, key) })
	return group.Wait()
}

// removeServices removes all service containers of a key.
func (d *Driver) removeServices(ctx context.Context, key run.Key) error {
	found, err := d.services(ctx, key)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range found {
		group.Go(func() error { return d.removeContainer(ctx, c.ID) })
	}
	return group.Wait()
}

// services returns the service containers of a key.
func (d *Driver) services(ctx context.Context, key run.Key) ([]container.Summary, error) {
	found, err := d.client.ContainerList(ctx, container.ListOptions{
		All: true,
		Filters: filters.NewArgs(
			filters.Arg("label", d.options.label("key")+"="+key.String()),
			filters.Arg("label", d.options.label("role")+"="+roleService),
		),
	})
	if err != nil {
		return nil, daemonError(err, "list the services of %s", key)
	}
	return found, nil
}

// removeContainer kills and removes a container with its anonymous volumes. A
// missing container is not an error.
func (d *Driver) removeContainer(ctx context.Context, name string) error {
	err := d.client.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
	switch {
	case err == nil, cerrdefs.IsNotFound(err):
		return nil
	case cerrdefs.IsConflict(err): // another client is removing it
		return d.awaitRemoval(ctx, name)
	}
	return daemonError(err, "remove container %s", name)
}

func (d *Driver) awaitRemoval(ctx context.Context, name string) error {
	removed, fault := d.client.ContainerWait(ctx, name, container.WaitConditionRemoved)
	select {
	case <-removed:
		return nil
	case err := <-fault:
		if cerrdefs.IsNotFound(err) {
			return nil
		}
		return daemonError(err, "wait for the removal of container %s", name)
	}
}

// kill kills a container and waits until it is not running.
func (d *Driver) kill(ctx context.Context, id string) error {
	if err := d.client.ContainerKill(ctx, id, killSignal); err != nil && !cerrdefs.IsConflict(err) {
		return daemonError(err, "kill container %s", id)
	}
	ended, fault := d.client.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case <-ended:
		return nil
	case err := <-fault:
		return daemonError(err, "wait for container %s", id)
	}
}
