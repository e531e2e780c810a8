package docker

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/executor/shim/helper"
	"github.com/drover-run/drover/run"
)

// ensureHelperImages makes the images of the helper containers present.
func (s *starting) ensureHelperImages(ctx context.Context, def run.Definition) error {
	for _, image := range def.HelperImages() {
		info, err := s.driver.ensureImage(ctx, def, image, s.plan.platform, s.log)
		if err != nil {
			return run.Errorf(run.CodeOf(err), "image of a step: %w", err)
		}
		s.helpers = append(s.helpers, info)
	}
	return nil
}

// helperLogSize limits the output of a helper container, which has none but faults of the shim.
const helperLogSize = "1m"

// startHelpers starts the helper containers. The shim of the task connects to them.
func (s *starting) startHelpers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, image := range s.task.Definition.HelperImages() {
		group.Go(func() error { return s.startHelper(ctx, i, image) })
	}
	return group.Wait()
}

func (s *starting) startHelper(ctx context.Context, i int, image string) error {
	d := s.driver
	config, host := s.helperConfig(i, image)
	if err := s.limitVolumes(ctx, host, image); err != nil {
		return err
	}
	id, err := s.createBeside(ctx, config, host, nil, d.options.helperName(s.key(), i))
	if err != nil {
		return refused(err, "create the container of image %s", image)
	}
	if err := s.checkMounts(ctx, id, image); err != nil {
		return err
	}
	if err := s.checkHostPaths(ctx); err != nil { // again: the services may have taken a while
		return err
	}
	if err := d.start(ctx, id); err != nil {
		return refused(err, "start the container of image %s", image)
	}
	return nil
}

// helperConfig returns the configuration of a helper container. It shares the network
// namespace and the volumes of the main container, and has the limits of the task.
func (s *starting) helperConfig(i int, image string) (*container.Config, *container.HostConfig) {
	def := s.task.Definition
	config := &container.Config{
		Image:       image,
		User:        "0:0", // the shim drops its privileges for the steps
		Entrypoint:  helperCommand(helper.Name(i)),
		WorkingDir:  "/",
		Labels:      s.driver.labels(def, roleHelper),
		StopSignal:  killSignal,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	noInit := false // the shim reaps
	host := &container.HostConfig{
		Init:        &noInit,
		LogConfig:   container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": helperLogSize, "max-file": "1"}},
		NetworkMode: container.NetworkMode(s.network()),
		VolumesFrom: []string{s.id},
		Privileged:  def.Privileged,
		Resources:   s.plan.resources,
	}
	for _, m := range s.plan.lasting { // from another container alone, the daemon creates a path that has vanished
		if m.Type == mount.TypeBind {
			host.Mounts = append(host.Mounts, m)
		}
	}
	for _, name := range s.storesOf(image) {
		host.Mounts = append(host.Mounts, gitStores{s.driver}.mount(name, true))
	}
	if len(def.SecretFiles) > 0 {
		host.Tmpfs = map[string]string{secretsDir: secretsOptions}
	}
	return config, host
}

// limitVolumes leaves out the lasting volumes from a helper container that only checks out,
// except for those into which it does: an earlier task can leave programs in its volume, and
// none may be in the place of git, which has the credentials.
func (s *starting) limitVolumes(ctx context.Context, host *container.HostConfig, image string) error {
	dirs := s.checkoutDirs(image)
	if len(s.plan.lasting) == 0 || len(dirs) == 0 {
		return nil
	}
	c, err := s.driver.client.ContainerInspect(ctx, s.id)
	if err != nil {
		return daemonError(err, "inspect the container of %s", s.key())
	}
	unused := func(target string) bool {
		return s.plan.isLasting(target) && !slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(dir+"/", target+"/") })
	}
	host.VolumesFrom = nil
	host.Mounts = slices.DeleteFunc(host.Mounts, func(m mount.Mount) bool { return unused(m.Target) })
	for _, m := range c.Mounts {
		if m.Type == mount.TypeBind || unused(m.Destination) { // host has the paths of the host already
			continue
		}
		host.Mounts = append(host.Mounts, mount.Mount{
			Type: m.Type, Source: cmp.Or(m.Name, m.Source), Target: m.Destination, ReadOnly: !m.RW,
			VolumeOptions: &mount.VolumeOptions{NoCopy: true},
		})
	}
	return nil
}

// checkoutDirs returns the directories of the checkouts in an image, and the working directory
// of the task, if all steps in it are checkouts; else nil.
func (s *starting) checkoutDirs(image string) []string {
	def := &s.task.Definition
	dirs := []string{path.Clean(def.WorkingDir)}
	for _, step := range def.Steps {
		switch {
		case step.Image != image:
		case step.Checkout == nil:
			return nil
		case path.IsAbs(step.WorkingDir):
			dirs = append(dirs, path.Join(step.WorkingDir, step.Checkout.Path))
		default:
			dirs = append(dirs, path.Join(def.WorkingDir, step.WorkingDir, step.Checkout.Path))
		}
	}
	return dirs
}

// storesOf returns the object stores of the checkouts that run in an image, sorted.
func (s *starting) storesOf(image string) []string {
	var names []string
	for _, step := range s.task.Definition.Steps {
		if step.Image != image || step.Checkout == nil || !step.Checkout.Reuse {
			continue
		}
		if name := s.stores[step.Checkout.Repository]; name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// gitStoreDirs returns the part of the order about the object stores.
func (s *starting) gitStoreDirs() map[string]string {
	dirs := make(map[string]string, len(s.stores))
	for repository, name := range s.stores {
		dirs[repository] = storeDir + "/" + name
	}
	return dirs
}

// helperSpecs returns the part of the order about the helper containers.
func (s *starting) helperSpecs() []run.HelperSpec {
	var specs []run.HelperSpec
	for i, image := range s.task.Definition.HelperImages() {
		info := s.helpers[i]
		specs = append(specs, run.HelperSpec{Image: image, User: info.user, WorkingDir: info.workingDir, BaseEnvironment: info.variables()})
	}
	return specs
}
