package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/pkg/stdcopy"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

const (
	// serviceWatch is how long a service must run to count as started if its
	// image exposes no port.
	serviceWatch = 250 * time.Millisecond
	// serviceTimeout is how long a service may take to listen on a port that
	// its image exposes.
	serviceTimeout = 30 * time.Second
	// serviceTail is how many of its last log lines are reported if a service
	// ends.
	serviceTail = 20
	// healthInterval is the pause between two calls of the health check of a service,
	// healthCallTimeout the timeout of one, and healthPoll the interval at which its
	// result is read.
	healthInterval    = 500 * time.Millisecond
	healthCallTimeout = 10 * time.Second
	healthPoll        = 100 * time.Millisecond
	// endAfterShim is how much later the end of a service may be known than that of a shim in
	// its container, which ends with it.
	endAfterShim = 10 * time.Second
	// serviceLogSize is the size of each of the two files with a service's output: the daemon
	// removes the older one when the other is full.
	serviceLogSize  = "512k"
	serviceLogBytes = 512_000
)

// startServices starts the services, in the main container's network namespace or beside
// it on the network of the task, and checks that they keep running.
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
		Image:       service.Image,
		Entrypoint:  service.Entrypoint,
		Cmd:         service.Command,
		Labels:      d.labels(s.task.Definition, roleService),
		Healthcheck: healthCheck(service.Health),
	}
	config.Labels[d.options.label("service")] = service.Name
	for name, value := range service.Environment {
		config.Env = append(config.Env, name+"="+value)
	}
	host := &container.HostConfig{
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{
			"max-size": serviceLogSize, "max-file": "2",
			// Defaults of the daemon would add to the size of each entry: see entrySize.
			"labels": "", "labels-regex": "", "env": "", "env-regex": "", "tag": "",
		}},
		Privileged: service.Privileged,
		Resources:  s.plan.serviceResources[i],
	}
	if service.ShareWorkingDir {
		shared, err := s.sharedWorkingDir(ctx)
		if err != nil {
			return err
		}
		host.Mounts = append(host.Mounts, shared)
	}
	networking := s.serviceNetwork(&service, host)
	name := d.options.serviceName(s.key(), i)
	id, err := s.createBeside(ctx, config, host, networking, name)
	if err != nil {
		return s.networkMissing(err, "create service %s", service.Name)
	}
	if err := s.checkMounts(ctx, id, service.Image); err != nil {
		return err
	}
	if err := d.start(ctx, id); err != nil {
		return s.networkMissing(err, "start service %s", service.Name)
	}
	if service.Health != nil {
		return s.awaitHealthy(ctx, id, service)
	}
	return s.awaitService(ctx, id, service, s.services[i].ports)
}

// sharedWorkingDir returns the mount of the task's working directory.
func (s *starting) sharedWorkingDir(ctx context.Context) (mount.Mount, error) {
	c, err := s.driver.client.ContainerInspect(ctx, s.id)
	if err != nil {
		return mount.Mount{}, daemonError(err, "inspect the container of %s", s.key())
	}
	target := path.Clean(s.task.Definition.WorkingDir)
	for _, m := range c.Mounts {
		if m.Destination == target {
			// A persistent volume begins empty: the daemon would fill it with what the service's image has.
			return mount.Mount{
				Type: mount.TypeVolume, Source: m.Name, Target: target,
				VolumeOptions: &mount.VolumeOptions{NoCopy: s.plan.isLasting(target)},
			}, nil
		}
	}
	return mount.Mount{}, run.Errorf(run.CodeInternal, "the container of %s has no volume at %s", s.key(), target)
}

// healthCheck returns the daemon's form of a health check; nil is that of the image.
func healthCheck(h *run.HealthCheck) *container.HealthConfig {
	if h == nil {
		return nil
	}
	return &container.HealthConfig{
		Test: append([]string{"CMD"}, h.Command...), Interval: healthInterval, Timeout: healthCallTimeout, Retries: math.MaxInt32,
	}
}

// awaitHealthy waits until the health check of a service succeeds.
func (s *starting) awaitHealthy(ctx context.Context, id string, service run.ServiceSpec) error {
	began := time.Now()
	limit := cmp.Or(service.Health.Timeout.Std(), run.DefaultHealthTimeout)
	for {
		c, err := s.driver.client.ContainerInspect(ctx, id)
		if err != nil {
			return daemonError(err, "inspect service %s", service.Name)
		}
		last := ""
		if h := c.State.Health; h != nil {
			if h.Status == container.Healthy {
				s.log(fmt.Sprintf("service %s is healthy after %s", service.Name, time.Since(began).Round(10*time.Millisecond)))
				return nil
			}
			if n := len(h.Log); s.task.HideServices {
				last = "its health check failed"
			} else if n > 0 {
				last = strings.TrimSpace(h.Log[n-1].Output)
			}
		}
		if !c.State.Running {
			return s.serviceDied(ctx, id, service)
		}
		if time.Since(began) > limit {
			return run.Errorf(run.CodeInvalid, "service %s (%s) was not healthy after %s: %s", service.Name, service.Image, limit, cmp.Or(last, "its health check printed nothing"))
		}
		if err := pause(ctx, healthPoll); err != nil {
			return err
		}
	}
}

// awaitService waits until the service listens on one of the ports that its
// image exposes. If the image exposes none, it waits for serviceWatch. A
// service that ended meanwhile is an error. A service that does not listen is
// not, since that may be intended.
func (s *starting) awaitService(ctx context.Context, id string, service run.ServiceSpec, ports []string) error {
	d := s.driver
	if len(ports) == 0 {
		ended, err := d.endsWithin(ctx, id, d.serviceWatch)
		if err != nil || !ended {
			return err
		}
		return s.serviceDied(ctx, id, service)
	}
	began := time.Now()
	listens := make(chan error, 1)
	waiting, cancel := context.WithCancelCause(ctx)
	var waiter sync.WaitGroup
	observer := s.id
	if s.ownNetwork != "" {
		observer = id
	}
	waiter.Go(func() { listens <- d.awaitPort(waiting, observer, ports) })
	ended := wait(waiting, d.client, id, container.WaitConditionNotRunning)
	defer func() { cancel(nil); waiter.Wait() }()
	select {
	case end := <-ended:
		if end.err != nil {
			return daemonError(end.err, "wait for service %s", service.Name)
		}
		return s.serviceDied(ctx, id, service)
	case err := <-listens:
		switch {
		case ctx.Err() != nil:
			return daemonError(context.Cause(ctx), "wait for service %s", service.Name)
		case err == nil:
			s.log(fmt.Sprintf("service %s listens after %s", service.Name, time.Since(began).Round(10*time.Millisecond)))
		case s.ownNetwork != "" && !errors.Is(err, errNoPort): // the service may have ended, and the shim with it
			if ended, err := d.endsWithin(ctx, id, endAfterShim); err != nil {
				return err
			} else if ended {
				return s.serviceDied(ctx, id, service)
			}
			fallthrough
		default:
			s.log(fmt.Sprintf("service %s: not waiting any longer for one of its ports %s: %v", service.Name, strings.Join(ports, ", "), err))
		}
		return nil
	}
}

// errNoPort is the error of a service that does not listen.
var errNoPort = fmt.Errorf("nothing listens after %s", serviceTimeout)

// awaitPort runs the shim in a container, whose network the service has too, to wait for
// one of the ports. The error is errNoPort if the shim has found none; others say why it
// did not look, or not for long.
func (d *Driver) awaitPort(ctx context.Context, id string, ports []string) error {
	var stderr tail
	var printed int64 // the number of the port: of a shim that is killed, the daemon may not know the exit code yet
	code, err := d.exec(ctx, id, []string{
		"await-port", "--ports", strings.Join(ports, ","), "--timeout", serviceTimeout.String(),
	}, &stderr, func(stdout io.Reader) (err error) {
		printed, err = io.Copy(io.Discard, stdout)
		return err
	})
	switch {
	case err != nil:
		return err
	case code == shim.ExitNoPort:
		return errNoPort
	case code != shim.ExitDone:
		return fmt.Errorf("exit code %d: %s", code, stderr.String())
	case printed == 0:
		return errors.New("the shim ended early")
	}
	return nil
}

// serviceDied writes the service's last log lines to the setup log and returns
// the error.
func (s *starting) serviceDied(ctx context.Context, id string, service run.ServiceSpec) error {
	d := s.driver
	c, err := d.client.ContainerInspect(ctx, id)
	if err != nil {
		return daemonError(err, "inspect service %s", service.Name)
	}
	var lines []string
	if !s.task.HideServices {
		lines, err = d.lastLines(ctx, id)
	}
	if err != nil {
		d.log.WarnContext(ctx, "failed to read the log of a service", "key", s.key().String(), "error", err)
	}
	for _, line := range lines {
		s.log("service " + service.Name + ": " + line)
	}
	message := fmt.Sprintf("service %s (%s) ended at once: %s", service.Name, service.Image, endReason(checkMemory(ctx, d, c)))
	if len(lines) > 0 {
		message += ": " + lines[len(lines)-1]
	}
	return run.Errorf(run.CodeInvalid, "%s", message)
}

// lastLines returns the last lines that a container has printed.
func (d *Driver) lastLines(ctx context.Context, id string) ([]string, error) {
	log, err := d.client.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(serviceTail + 1)})
	if err != nil {
		return nil, daemonError(err, "read the log of container %s", id)
	}
	defer func() { _ = log.Close() }()
	last := executor.LastLines{Limit: serviceTail}
	if _, err := stdcopy.StdCopy(&last, &last, log); err != nil {
		return nil, daemonError(err, "read the log of container %s", id)
	}
	return last.Lines(), nil
}
