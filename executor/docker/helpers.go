package docker

import (
	"context"
	"slices"

	"github.com/docker/docker/api/types/container"
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
	id, err := s.createBeside(ctx, config, host, nil, d.options.helperName(s.key(), i))
	if err != nil {
		return refused(err, "create the container of image %s", image)
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
	for _, name := range s.storesOf(image) {
		host.Mounts = append(host.Mounts, gitStores{s.driver}.mount(name, true))
	}
	if len(def.SecretFiles) > 0 {
		host.Tmpfs = map[string]string{secretsDir: secretsOptions}
	}
	return config, host
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
