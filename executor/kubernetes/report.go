package kubernetes

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/drover-run/drover/run"
)

// reportInterval is the interval at which the driver lists the events of a starting
// pod. The first listing waits as long, since most pods run by then.
const reportInterval = 3 * time.Second

// report writes events of a slowly starting pod to the setup log, for example a
// pull of an image or a volume that cannot be mounted. It fails if an image
// cannot be pulled. A node reports that by an event at once, but in the pod's
// status only when it tries again, ten seconds later.
func (s *starting) report(ctx context.Context, pod *corev1.Pod) error {
	if time.Since(s.lastReport) < reportInterval {
		return nil
	}
	s.lastReport = time.Now()
	d := s.driver
	ctx, cancel := d.call(ctx)
	defer cancel()
	found, err := d.client.Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(),
	})
	if err != nil {
		d.log.DebugContext(ctx, "failed to list the events of a pod", "key", s.key().String(), "error", err)
		return nil
	}
	for i := range found.Items {
		if err := pullError(pod, &found.Items[i], s.task.Definition); err != nil {
			return err
		}
		if s.task.HideServices && strings.Contains(found.Items[i].InvolvedObject.FieldPath, "{"+serviceContainer) {
			continue // a failed health check shows what it printed
		}
		line := eventLine(&found.Items[i])
		if line != "" && !slices.Contains(s.reports, line) {
			s.reports = append(s.reports, line)
			s.log(line)
		}
	}
	return nil
}

// pullError returns the error that blocked would return, for an event about an
// image that cannot be pulled.
func pullError(pod *corev1.Pod, event *corev1.Event, def run.Definition) error {
	reason := event.Reason
	switch {
	case reason == "ErrImageNeverPull":
	case reason == "Failed" && strings.HasPrefix(event.Message, "Failed to pull image "):
		reason = "ErrImagePull"
	default:
		return nil
	}
	_, name, found := strings.Cut(event.InvolvedObject.FieldPath, "{") // spec.containers{task}
	if !found {
		return nil
	}
	name = strings.TrimSuffix(name, "}")
	if statusOf(pod, name) == nil {
		return nil
	}
	return blockedBy(name, &corev1.ContainerStateWaiting{Reason: reason, Message: event.Message}, pod, def)
}

// eventLine returns an event as a line of the setup log. It returns "" for an
// event that is irrelevant or reported otherwise.
func eventLine(event *corev1.Event) string {
	text := strings.TrimSpace(event.Message)
	switch event.Reason {
	case "Pulling", "Pulled":
		return "the node: " + text
	case "FailedScheduling", "Failed", "BackOff", "ErrImageNeverPull", "InspectFailed":
		return ""
	}
	if event.Type != corev1.EventTypeWarning {
		return ""
	}
	return "the cluster: " + text + " (" + event.Reason + ")"
}
