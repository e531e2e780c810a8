package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

const (
	// exitKilled is the exit code of a process killed by SIGKILL.
	exitKilled = 137
	// exitLost is the exit code that container runtimes report for lost
	// containers.
	exitLost = 255
	// pullLimited is in a kubelet's message when it pulls too often; the
	// kubelet retries.
	pullLimited = "pull QPS exceeded"
)

// statusOf returns the status of a container, or nil.
func statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// terminated returns how a container ended, or nil if it has not.
func terminated(pod *corev1.Pod, name string) *corev1.ContainerStateTerminated {
	s := statusOf(pod, name)
	if s == nil {
		return nil
	}
	return s.State.Terminated
}

// isRunning reports whether all containers of the pod run.
func isRunning(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.Containers {
		if s := statusOf(pod, c.Name); s == nil || s.State.Running == nil {
			return false
		}
	}
	return true
}

// mainRuns reports whether the task's container runs.
func mainRuns(pod *corev1.Pod) bool {
	s := statusOf(pod, mainContainer)
	return s != nil && s.State.Running != nil
}

// isOver reports whether the task's container will not run any more.
func isOver(pod *corev1.Pod) bool {
	return terminated(pod, mainContainer) != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// condition returns a condition of the pod, or nil.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// unschedulable returns why no node takes the pod, or "".
func unschedulable(pod *corev1.Pod) string {
	c := condition(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return ""
	}
	return "no node takes the pod: " + c.Message
}

// containerTitle returns the name of a task's container for messages.
func containerTitle(name string, def run.Definition) string {
	if text, ok := strings.CutPrefix(name, serviceContainer); ok {
		if i, err := strconv.Atoi(text); err == nil && i < len(def.Services) {
			return "service " + def.Services[i].Name + ": "
		}
	}
	if text, ok := strings.CutPrefix(name, helperContainer); ok {
		if i, err := strconv.Atoi(text); err == nil && i < len(def.HelperImages()) {
			return "the container of the steps with image " + def.HelperImages()[i] + ": "
		}
	}
	switch name {
	case mainContainer:
		return ""
	case shimContainer:
		return "the helper that installs the shim: "
	}
	return "container " + name + ": "
}

// blocked returns why a container of a starting pod will not run. CodeInvalid
// means that the task is at fault, CodeUnavailable that this executor is. Nil
// means that the container may still run.
func blocked(pod *corev1.Pod, def run.Definition) error {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		w := s.State.Waiting
		if w == nil {
			continue
		}
		if err := blockedBy(s.Name, w, pod, def); err != nil {
			return err
		}
	}
	return nil
}

// blockedBy is blocked for one container.
func blockedBy(name string, w *corev1.ContainerStateWaiting, pod *corev1.Pod, def run.Definition) error {
	reason := blockedReason(w, imageOf(pod, name))
	if reason == "" {
		return nil
	}
	code := run.CodeInvalid
	if name == shimContainer {
		code = run.CodeUnavailable
	}
	return run.Errorf(code, "%s%s", containerTitle(name, def), reason)
}

// blockedReason returns why a waiting container will wait forever, or "" if it may
// still run.
func blockedReason(w *corev1.ContainerStateWaiting, image string) string {
	text := w.Message
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		if strings.Contains(text, pullLimited) {
			return ""
		}
		if w.Reason == "ErrImageNeverPull" {
			return "image " + image + " is not on the node and the pull policy is never"
		}
		if !strings.Contains(text, image) {
			text = image + ": " + text
		}
		return "image pull failed: " + text
	case "CreateContainerConfigError", "RunContainerError", "StartError", "PostStartHookError", "PreCreateHookError", "PreStartHookError":
		return "the container could not be started: " + text
	case "CreateContainerError":
		// The kubelet asks a slow runtime again, which then has the name
		// reserved already.
		if strings.Contains(text, "deadline exceeded") || strings.Contains(text, "is reserved for") || strings.Contains(text, "context canceled") {
			return ""
		}
		return "the container could not be created: " + text
	}
	return ""
}

// imageOf returns the image in a container's specification.
func imageOf(pod *corev1.Pod, name string) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == name {
			return c.Image
		}
	}
	return ""
}

// disruption returns what ended a pod from outside, or "".
func disruption(pod *corev1.Pod) string {
	if c := condition(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		var text string
		switch c.Reason {
		case corev1.PodReasonPreemptionByScheduler:
			text = "the pod was preempted by one of a higher priority"
		case "EvictionByEvictionAPI":
			text = "the pod was evicted through the API, as when its node is drained"
		case "DeletionByTaintManager":
			text = "the pod was deleted since its node " + pod.Spec.NodeName + " was lost or tainted"
		case "DeletionByPodGC":
			text = "the pod was deleted since its node " + pod.Spec.NodeName + " is gone"
		case corev1.PodReasonTerminationByKubelet:
			text = "the pod was ended by its node " + pod.Spec.NodeName
		default:
			text = "the pod was disrupted (" + c.Reason + ")"
		}
		return withDetail(text, cmp.Or(pod.Status.Message, c.Message))
	}
	switch reason := pod.Status.Reason; reason {
	case "":
	case "Evicted":
		return withDetail("the pod was evicted by its node "+pod.Spec.NodeName, pod.Status.Message)
	case "NodeLost":
		return withDetail("the node "+pod.Spec.NodeName+" was lost", pod.Status.Message)
	case "DeadlineExceeded":
		return withDetail("the pod's deadline passed (activeDeadlineSeconds)", pod.Status.Message)
	default: // the node shuts down, or did not admit the pod
		return withDetail("the pod was ended by its node "+pod.Spec.NodeName+" ("+reason+")", pod.Status.Message)
	}
	if pod.DeletionTimestamp != nil {
		return deletedText
	}
	return ""
}

const deletedText = "the pod was deleted from outside of Drover"

func withDetail(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + ": " + strings.TrimSpace(detail)
}

// endError returns the error of a task whose container is not running any more and
// wrote no end.
func endError(pod *corev1.Pod) error {
	t := terminated(pod, mainContainer)
	if t != nil && t.Reason == "OOMKilled" {
		text := "out of memory: the container was killed at its memory limit"
		if limit, ok := memoryLimit(pod); ok {
			text += " of " + limit
		}
		return executor.Ended(run.CauseOOM, text)
	}
	if text := disruption(pod); text != "" {
		return executor.Ended(run.CauseVanished, text)
	}
	if t == nil {
		return executor.Ended(run.CauseVanished, withDetail("the pod ended without running the task", pod.Status.Message))
	}
	return executor.Ended(run.CauseVanished, withDetail(shimReason(t), t.Message))
}

// shimReason is terminationReason for a container whose program is the shim.
func shimReason(t *corev1.ContainerStateTerminated) string {
	if t.ExitCode == shim.ExitFiles {
		return "the shim could not write to its volume"
	}
	return terminationReason(t)
}

// terminationReason returns why a container is not running.
func terminationReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason == "OOMKilled":
		return "out of memory"
	case t.Reason == "ContainerStatusUnknown", t.Reason == "Unknown", t.ExitCode == exitLost:
		return "the container was lost: its node or the container runtime was restarted"
	case t.ExitCode == exitKilled:
		return "the container was killed from outside (SIGKILL)"
	case t.Signal > 0:
		return fmt.Sprintf("the container ended on signal %d", t.Signal)
	}
	return fmt.Sprintf("the container ended with exit code %d", t.ExitCode)
}

func memoryLimit(pod *corev1.Pod) (string, bool) {
	for _, c := range pod.Spec.Containers {
		if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && c.Name == mainContainer {
			return limit.String(), true
		}
	}
	return "", false
}
