package docker

import (
	"context"
	"errors"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/run"
)

// removeAll removes all containers of a key, their anonymous volumes and networks. It
// does not list containers first: a listing takes longer the more containers
// exist, and the main container is removed meanwhile.
func (d *Driver) removeAll(ctx context.Context, key run.Key) error {
	waiting := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.removeContainer(ctx, d.options.mainName(key)) })
	var others int
	group.Go(func() (err error) {
		others, err = d.removeOthers(ctx, key)
		return err
	})
	var left []network.Summary
	group.Go(func() (err error) {
		left, err = networks{d}.list(ctx, "key", key.String())
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	// Once the containers are gone, no caller may look for the rest: it is removed also if the
	// caller gives up, and if a part of it cannot be removed.
	rest, cancel := context.WithTimeout(context.WithoutCancel(waiting), networkLimit)
	defer cancel()
	err := (networks{d}).removeAll(rest, left)
	if others == 0 {
		return err
	}
	return errors.Join(err, d.removeVolumes(rest, key))
}

// removeVolumes removes the anonymous volumes of a key. A container is removed with its
// own unless another container uses them at that moment.
func (d *Driver) removeVolumes(ctx context.Context, key run.Key) error {
	found, err := d.client.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", d.options.label("key")+"="+key.String()))})
	if err != nil {
		return daemonError(err, "list the volumes of %s", key)
	}
	for _, v := range found.Volumes {
		if err := d.client.VolumeRemove(ctx, v.Name, false); err != nil && !cerrdefs.IsNotFound(err) {
			return daemonError(err, "remove volume %s", v.Name)
		}
	}
	return nil
}

// removeOthers removes all containers of a key but the main one, which they do not
// outlive. removed is how many there were.
func (d *Driver) removeOthers(ctx context.Context, key run.Key) (removed int, err error) {
	found, err := d.others(ctx, key)
	if err != nil {
		return 0, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range found {
		group.Go(func() error { return d.removeContainer(ctx, c.ID) })
	}
	return len(found), group.Wait()
}

// others returns the services and the helper containers of a key.
func (d *Driver) others(ctx context.Context, key run.Key) ([]container.Summary, error) {
	found, err := d.client.ContainerList(ctx, container.ListOptions{
		All: true,
		Filters: filters.NewArgs(
			filters.Arg("label", d.options.label("key")+"="+key.String()),
		),
	})
	if err != nil {
		return nil, daemonError(err, "list the containers of %s", key)
	}
	return slices.DeleteFunc(found, func(c container.Summary) bool { return c.Labels[d.options.label("role")] == roleMain }), nil
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
	end := <-wait(ctx, d.client, name, container.WaitConditionRemoved)
	if end.err == nil || cerrdefs.IsNotFound(end.err) {
		return nil
	}
	return daemonError(end.err, "wait for the removal of container %s", name)
}

// kill kills a container and waits until it is not running.
func (d *Driver) kill(ctx context.Context, id string) error {
	if err := d.client.ContainerKill(ctx, id, killSignal); err != nil && !cerrdefs.IsConflict(err) {
		return daemonError(err, "kill container %s", id)
	}
	if end := <-wait(ctx, d.client, id, container.WaitConditionNotRunning); end.err != nil {
		return daemonError(end.err, "wait for container %s", id)
	}
	return nil
}
