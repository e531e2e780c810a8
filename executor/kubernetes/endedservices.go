package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-run/drover/run"
)

const (
	// endLag is how much later than a step that failed because of it the end of a service
	// may be in the pod's status.
	endLag = 2 * time.Second
	// noteLines is how many of the last log lines of a service are in a note.
	noteLines = 3
)

// endedService is a service that ended before its task.
type endedService struct {
	container string
	text      string
}

// endedServices returns the services of a pod that ended before a time.
func endedServices(pod *corev1.Pod, before time.Time) (ended []endedService) {
	names := pod.Annotations[annotationServices]
	if names == "" {
		return nil
	}
	for i, name := range strings.Split(names, ",") {
		container := fmt.Sprint(serviceContainer, i)
		t := terminated(pod, container)
		if t == nil || t.FinishedAt.After(before) { // with its pod
			continue
		}
		ended = append(ended, endedService{container, fmt.Sprintf("service %s (%s) had ended: %s", name, imageOf(pod, container), terminationReason(t))})
	}
	return ended
}

// endedServices describes the services of a failed task that had ended: its steps only
// find that they cannot reach them.
func (f *follower) endedServices(ctx context.Context, result *run.TaskResult) []string {
	var ended []endedService
	limited, cancel := context.WithTimeout(ctx, endLag)
	defer cancel()
	// After the end of the context, the status has no such service.
	_ = f.driver.await(limited, f.pod, func(pod *corev1.Pod) (bool, error) {
		if pod == nil || pod.UID != f.uid || pod.Annotations[annotationServices] == "" {
			return true, nil
		}
		ended = endedServices(pod, result.Ended.Add(endLag))
		return len(ended) > 0 || isOver(pod), nil
	})
	var notes []string
	for _, service := range ended {
		if f.secrets == nil { // its output may contain them
			notes = append(notes, service.text)
			continue
		}
		lines, err := f.driver.lastLines(ctx, f.pod, service.container)
		if err != nil {
			f.driver.log.WarnContext(ctx, "failed to read the log of a service", "key", f.key.String(), "error", err)
		}
		if len(lines) > 0 {
			lines = strings.Split(f.secrets.String(strings.Join(lines, "\n")), "\n") // secrets may have several lines
			service.text += ": " + strings.Join(lines[max(0, len(lines)-noteLines):], " | ")
		}
		notes = append(notes, service.text)
	}
	return notes
}
