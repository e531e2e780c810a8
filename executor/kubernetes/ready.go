package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

const (
	// serviceTimeout is how long services may take until as many ports are
	// open as there are services.
	serviceTimeout = 10 * time.Second
	// serviceTail is how many of its last log lines are reported if a service
	// ends.
	serviceTail = 20
)

// errServicesListen ends the watch of starting services.
var errServicesListen = errors.New("the services listen")

// awaitRunning waits until the containers of the pod run. A lostError means
// that the pod is unusable and the task is not at fault.
func (s *starting) awaitRunning(ctx context.Context) error {
	began := time.Now()
	s.lastReport = began
	return s.driver.await(ctx, s.pod.Name, func(pod *corev1.Pod) (bool, error) {
		if err := s.checkPod(ctx, pod); err != nil {
			return false, err
		}
		if !isRunning(pod) {
			return false, s.report(ctx, pod)
		}
		s.logOnce(fmt.Sprintf("the containers run after %s", time.Since(began).Round(10*time.Millisecond)))
		return true, nil
	})
}

// checkPod examines a new state of the pod, and returns an error if the pod will
// not run the task.
func (s *starting) checkPod(ctx context.Context, pod *corev1.Pod) error {
	def := s.task.Definition
	if pod == nil || pod.UID != s.pod.UID {
		return &lostError{deletedText}
	}
	s.pod = pod
	if err := blocked(pod, def); err != nil {
		return err
	}
	for _, c := range pod.Spec.Containers {
		t := terminated(pod, c.Name)
		switch {
		case t == nil || t.ExitCode == 0 && c.Name != mainContainer && !strings.HasPrefix(c.Name, serviceContainer):
		case t.Reason == "StartError" || t.Reason == "ContainerCannotRun":
			return run.Errorf(run.CodeInvalid, "%sthe container could not be started: %s", containerTitle(c.Name, def), t.Message)
		case disruption(pod) != "":
		case c.Name != mainContainer:
			return s.containerDied(ctx, c.Name, t)
		case t.ExitCode == shim.ExitUsage || t.ExitCode == shim.ExitFiles || t.ExitCode == shim.ExitOrder:
			return s.shimDied(ctx, t)
		}
	}
	if text := disruption(pod); text != "" {
		return &lostError{text}
	}
	if t := terminated(pod, shimContainer); t != nil && t.ExitCode != 0 {
		return run.Errorf(run.CodeUnavailable, "the helper that installs the shim failed: %s", withDetail(shimReason(t), t.Message))
	}
	if isOver(pod) {
		return &lostError{endError(pod).Error()}
	}
	if reason := unschedulable(pod); reason != "" {
		return s.reportWait(reason)
	}
	s.waitingSince = time.Time{}
	if pod.Spec.NodeName != "" && !isRunning(pod) {
		s.logOnce("the pod is on node " + pod.Spec.NodeName)
	}
	return nil
}

// awaitServices waits until as many ports are open as there are services, which
// share the network of the task's container, and checks that the services keep
// running. A service that does not listen is not an error, since that may be
// intended.
func (s *starting) awaitServices(ctx context.Context) error {
	services := s.task.Definition.Services
	if len(services) == 0 {
		return nil
	}
	for _, service := range services {
		if !isHostName(service.Name) {
			s.log("service " + service.Name + " answers on localhost only: its name is not a valid host name")
		}
	}
	if checked, err := s.awaitHealthy(ctx); err != nil || checked == len(services) {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listen := make(chan error, 1)
	go func() {
		err := s.driver.awaitPorts(ctx, s.pod.Name, len(services))
		listen <- err
		cancel(errServicesListen)
	}()
	err := s.driver.await(ctx, s.pod.Name, func(pod *corev1.Pod) (bool, error) { return false, s.checkPod(ctx, pod) })
	if !errors.Is(context.Cause(ctx), errServicesListen) {
		cancel(nil)
		<-listen //nolint:errcheck // the reason why the pod failed says more
		return err
	}
	if err := <-listen; err != nil {
		s.log(fmt.Sprintf("not waiting any longer for services to listen: %v", err))
		return nil
	}
	s.log(fmt.Sprintf("the services listen after %s", time.Since(began).Round(10*time.Millisecond)))
	return nil
}

// awaitHealthy waits until the health checks of all services that have one succeed. It
// returns how many have one.
func (s *starting) awaitHealthy(ctx context.Context) (checked int, err error) {
	began := time.Now()
	services := s.task.Definition.Services
	checked = len(slices.Collect(healthChecked(services)))
	if checked == 0 {
		return 0, nil
	}
	return checked, s.driver.await(ctx, s.pod.Name, func(pod *corev1.Pod) (bool, error) {
		if err := s.checkPod(ctx, pod); err != nil {
			return false, err
		}
		healthy := 0
		for i := range healthChecked(services) {
			if status := statusOf(pod, fmt.Sprint(serviceContainer, i)); status != nil && status.Ready {
				healthy++
				continue
			}
			if limit := cmp.Or(services[i].Health.Timeout.Std(), run.DefaultHealthTimeout); time.Since(began) > limit {
				return false, run.Errorf(run.CodeInvalid, "service %s (%s) was not healthy after %s", services[i].Name, services[i].Image, limit)
			}
		}
		if healthy == checked {
			s.log(fmt.Sprintf("the services with health checks are healthy after %s", time.Since(began).Round(10*time.Millisecond)))
		}
		return healthy == checked, nil
	})
}

// healthChecked yields the numbers of the services that have a health check.
func healthChecked(services []run.ServiceSpec) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range services {
			if services[i].Health != nil && !yield(i) {
				return
			}
		}
	}
}

// awaitPorts runs the shim in the task's container to wait for the given number
// of open ports.
func (d *Driver) awaitPorts(ctx context.Context, pod string, count int) error {
	code, stderr, err := d.execWait(ctx, pod, "await-port", "--count", strconv.Itoa(count), "--timeout", serviceTimeout.String())
	switch {
	case err != nil:
		return err
	case code == shim.ExitNoPort:
		return fmt.Errorf("fewer than %d ports are open after %s", count, serviceTimeout)
	case code != shim.ExitDone:
		return fmt.Errorf("exit code %d: %s", code, stderr)
	}
	return nil
}

// containerDied writes the last log lines of a service to the setup log and
// returns the error.
func (s *starting) containerDied(ctx context.Context, name string, t *corev1.ContainerStateTerminated) error {
	title := strings.TrimSuffix(containerTitle(name, s.task.Definition), ": ")
	var lines []string
	var err error
	if !s.task.HideServices {
		lines, err = s.driver.lastLines(ctx, s.pod.Name, name)
	}
	if err != nil {
		s.driver.log.WarnContext(ctx, "failed to read the log of a service", "key", s.key().String(), "error", err)
	}
	for _, line := range lines {
		s.log(title + ": " + line)
	}
	reason := terminationReason(t)
	if !s.task.HideServices { // a template may make the message the end of the log
		reason = withDetail(reason, t.Message)
	}
	message := fmt.Sprintf("%s (%s) ended at once: %s", title, imageOf(s.pod, name), reason)
	if len(lines) > 0 {
		message += ": " + lines[len(lines)-1]
	}
	return run.Errorf(run.CodeInvalid, "%s", message)
}

// shimDied returns the error for a shim that did not wait for its order: it has
// another version, or no disk space.
func (s *starting) shimDied(ctx context.Context, t *corev1.ContainerStateTerminated) error {
	lines, err := s.driver.lastLines(ctx, s.pod.Name, mainContainer)
	if err != nil {
		s.driver.log.WarnContext(ctx, "failed to read the log of a shim", "key", s.key().String(), "error", err)
	}
	return run.Errorf(run.CodeUnavailable, "the shim of image %s did not begin: exit code %d: %s",
		s.driver.options.HelperImage, t.ExitCode, strings.Join(lines, "; "))
}
