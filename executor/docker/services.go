package docker

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/run"
)

const (
	// serviceWatch is how long a service must live to count as started.
	serviceWatch = 250 * time.Millisecond
	// serviceTail is how many of its last lines are told when a service dies.
	serviceTail = "20"
	// serviceLogSize bounds what the daemon keeps of a service's output.
	serviceLogSize = "1m"
)

// startServices starts the services in the main container's network namespace
// and watches whether they stay.
func (s *starting) startServices(ctx context.Context) error {
	if len(s.task.Definition.Services) == 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, service := range s.task.Definition.Services {
		group.Go(func() error { return s.startService(ctx, i, service) })
	}
	return group.Wait()
}

func (s *starting) startService(ctx context.Context, i int, service run.ServiceSpec) error {
	d := s.driver
	config := &container.Config{
		Image:  service.Image,
		Cmd:    service.Command,
		Labels: d.labels(s.task.Definition, roleService),
	}
	config.Labels[d.label("service")] = service.Name
	for name, value := range service.Environment {
		config.Env = append(config.Env, name+"="+value)
	}
	host := &container.HostConfig{
		NetworkMode: container.NetworkMode("container:" + s.id),
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{
			"max-size": serviceLogSize, "max-file": "1",
		}},
	}
	name := d.serviceName(s.key(), i)
	id, err := d.create(ctx, config, host, s.plan.platform, name)
	if err != nil {
		return refused(err, "making service %s", service.Name)
	}
	if err := d.start(ctx, id); err != nil {
		return refused(err, "starting service %s", service.Name)
	}
	ended, err := d.endsWithin(ctx, id, serviceWatch)
	if err != nil {
		return err
	}
	if !ended {
		return nil
	}
	return s.serviceDied(ctx, id, service)
}

// serviceDied tells the service's last lines in the setup's log and returns
// the fault.
func (s *starting) serviceDied(ctx context.Context, id string, service run.ServiceSpec) error {
	d := s.driver
	c, err := d.client.ContainerInspect(ctx, id)
	if err != nil {
		return daemonError(err, "looking at service %s", service.Name)
	}
	lines, err := d.lastLines(ctx, id)
	if err != nil {
		d.log.WarnContext(ctx, "reading the log of a service", "key", s.key().String(), "error", err)
	}
	for _, line := range lines {
		s.log("service " + service.Name + ": " + line)
	}
	message := fmt.Sprintf("service %s (%s) ended at once: %s", service.Name, service.Image, whyEnded(c.State))
	if len(lines) > 0 {
		message += ": " + lines[len(lines)-1]
	}
	return run.Errorf(run.CodeInvalid, "%s", message)
}

// endsWithin reports whether the container ends within a span of time.
func (d *Driver) endsWithin(ctx context.Context, id string, span time.Duration) (bool, error) {
	watch, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	ended, fault := d.client.ContainerWait(watch, id, container.WaitConditionNotRunning)
	select {
	case <-ended:
		return true, nil
	case err := <-fault:
		switch {
		case ctx.Err() != nil:
			return false, daemonError(context.Cause(ctx), "waiting for container %s", id)
		case watch.Err() != nil:
			return false, nil
		case cerrdefs.IsNotFound(err):
			return true, nil
		}
		return false, daemonError(err, "waiting for container %s", id)
	}
}

func (d *Driver) lastLines(ctx context.Context, id string) ([]string, error) {
	log, err := d.client.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: serviceTail})
	if err != nil {
		return nil, daemonError(err, "reading the log of container %s", id)
	}
	defer func() { _ = log.Close() }()
	var text bytes.Buffer
	if _, err := stdcopy.StdCopy(&text, &text, log); err != nil {
		return nil, daemonError(err, "reading the log of container %s", id)
	}
	trimmed := strings.TrimSpace(text.String())
	if trimmed == "" {
		return nil, nil
	}
	return strings.Split(trimmed, "\n"), nil
}
