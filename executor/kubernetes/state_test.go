package kubernetes

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// podWith returns a pod of a task with one service, modified by change.
func podWith(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		NodeName:       "n1",
		InitContainers: []corev1.Container{{Name: shimContainer, Image: "drover:test"}},
		Containers:     []corev1.Container{{Name: mainContainer, Image: "golang:1.26"}, {Name: "service-0", Image: "postgres:16"}},
	}}
	change(pod)
	return pod
}

func waits(name, reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		s := corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
		if name == shimContainer {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, s)
			return
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s)
	}
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	def := run.Definition{Services: []run.ServiceSpec{{Name: "db"}}}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		code   run.Code
		want   string
	}{
		"is created":        {waits(mainContainer, "ContainerCreating", ""), "", ""},
		"no such image":     {waits(mainContainer, "ErrImagePull", "not found"), run.CodeInvalid, "image pull failed: golang:1.26: not found"},
		"pull backs off":    {waits(mainContainer, "ImagePullBackOff", `Back-off pulling image "golang:1.26"`), run.CodeInvalid, `image pull failed: Back-off pulling image "golang:1.26"`},
		"too many pulls":    {waits(mainContainer, "ErrImagePull", "pull QPS exceeded"), "", ""},
		"never pulled":      {waits(mainContainer, "ErrImageNeverPull", "x"), run.CodeInvalid, "image golang:1.26 is not on the node and the pull policy is never"},
		"of a service":      {waits("service-0", "InvalidImageName", "bad postgres:16"), run.CodeInvalid, "service db: image pull failed: bad postgres:16"},
		"of the helper":     {waits(shimContainer, "ErrImagePull", "not found"), run.CodeUnavailable, "the helper that installs the shim: image pull failed: drover:test: not found"},
		"bad configuration": {waits(mainContainer, "CreateContainerConfigError", "runAsNonRoot"), run.CodeInvalid, "the container could not be started: runAsNonRoot"},
		"runtime is slow":   {waits(mainContainer, "CreateContainerError", "context deadline exceeded"), "", ""},
		"runtime refuses":   {waits(mainContainer, "CreateContainerError", "no mount"), run.CodeInvalid, "the container could not be created: no mount"},
		"of another's sidecar": {func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "proxy", Image: "p"})
			waits("proxy", "ErrImagePull", "not found")(pod)
		}, run.CodeInvalid, "container proxy: image pull failed: p: not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := blocked(podWith(tt.change), def)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
			require.Equal(t, tt.code, run.CodeOf(err))
		})
	}
}

func disrupted(reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message}}
	}
}

func died(reason string, code int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: mainContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}},
		}}
	}
}

func all(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, c := range changes {
			c(pod)
		}
	}
}

func TestEndError(t *testing.T) {
	t.Parallel()
	evicted := func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
	}
	deleted := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		cause  run.Cause
		want   string
	}{
		"out of memory":       {died("OOMKilled", 137), run.CauseOOM, "out of memory: the container was killed at its memory limit"},
		"killed":              {died("Error", 137), run.CauseVanished, "the container was killed from outside (SIGKILL)"},
		"lost":                {died("Unknown", 255), run.CauseVanished, "the container was lost: its node or the container runtime was restarted"},
		"full disk":           {died("Error", 7), run.CauseVanished, "the shim could not write to its volume"},
		"another code":        {died("Error", 3), run.CauseVanished, "the container ended with exit code 3"},
		"evicted by its node": {all(died("Error", 137), evicted), run.CauseVanished, "the pod was evicted by its node n1: The node was low on resource: memory."},
		"evicted, two reasons": {
			all(died("Error", 137), evicted, disrupted("TerminationByKubelet", "x")), run.CauseVanished,
			"the pod was ended by its node n1: The node was low on resource: memory.",
		},
		"drained":   {disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), run.CauseVanished, "the pod was evicted through the API, as when its node is drained: Eviction API: evicting"},
		"preempted": {disrupted("PreemptionByScheduler", "p"), run.CauseVanished, "the pod was preempted by one of a higher priority: p"},
		"node lost": {all(deleted, disrupted("DeletionByTaintManager", "")), run.CauseVanished, "the pod was deleted since its node n1 was lost or tainted"},
		"node gone": {disrupted("DeletionByPodGC", ""), run.CauseVanished, "the pod was deleted since its node n1 is gone"},
		"deleted":   {deleted, run.CauseVanished, "the pod was deleted from outside of Drover"},
		"refused by its node": {
			func(pod *corev1.Pod) { pod.Status.Reason, pod.Status.Message = "OutOfcpu", "Node didn't have enough" }, run.CauseVanished,
			"the pod was ended by its node n1 (OutOfcpu): Node didn't have enough",
		},
		"nothing known": {func(*corev1.Pod) {}, run.CauseVanished, "the pod ended without running the task"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := endError(podWith(tt.change))
			require.EqualError(t, err, tt.want)
			require.Equal(t, run.CodeNotFound, run.CodeOf(err))
			require.Equal(t, tt.cause, executor.CauseOf(err))
		})
	}
}

func TestEndedServices(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := func(at time.Time) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{annotationServices: "db"}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "service-0", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 7, FinishedAt: metav1.NewTime(at)},
			}}}
		}
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   []endedService
	}{
		"before the task":     {ended(end.Add(-time.Second)), []endedService{{"service-0", "service db (postgres:16) had ended: the container ended with exit code 7"}}},
		"with its pod":        {ended(end.Add(time.Second)), nil},
		"runs":                {all(ended(end), func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }), nil},
		"of an older release": {all(ended(end), func(pod *corev1.Pod) { pod.Annotations = nil }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, endedServices(podWith(tt.change), end))
		})
	}
}

func TestRefusalOf(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	forbidden := func(text string) error { return apierrors.NewForbidden(pods, "p", errors.New(text)) }
	for name, tt := range map[string]struct {
		err  error
		want refusal
	}{
		"quota used up":    {forbidden("exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4"), refusedTemporarily},
		"quota too small":  {forbidden("exceeded quota: q, requested: limits.memory=4Gi,pods=1, used: limits.memory=0,pods=0, limited: limits.memory=2Gi,pods=4"), refusedPermanently},
		"quota needs more": {forbidden("failed quota: q: must specify limits.cpu for: task"), refusedPermanently},
		"pod security":     {forbidden("violates PodSecurity \"restricted:latest\""), refusedPermanently},
		"no rights":        {forbidden(`User "x" cannot create resource "pods" in API group "" in the namespace "y"`), notRefused},
		"not understood":   {apierrors.NewBadRequest("x"), refusedPermanently},
		"server fails":     {apierrors.NewInternalError(errors.New("etcd")), notRefused},
		"server is busy":   {apierrors.NewTooManyRequestsError("x"), notRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, refusalOf(tt.err))
		})
	}
}

func TestRegistryAuth(t *testing.T) {
	t.Parallel()
	text, err := registryAuth(map[string]run.Auth{"ghcr.io": {Username: "u", Password: "p"}, "docker.io": {Username: "v", Password: "q"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"auths":{"ghcr.io":{"username":"u","password":"p","auth":"dTpw"},
		"https://index.docker.io/v1/":{"username":"v","password":"q","auth":"djpx"}}}`, string(text))

	for range 20 { // the order of a map must not decide
		text, err = registryAuth(map[string]run.Auth{"registry-1.docker.io": {Username: "w"}, "index.docker.io": {Username: "u"}, "docker.io": {Username: "v", Password: "q"}})
		require.NoError(t, err)
		require.JSONEq(t, `{"auths":{"https://index.docker.io/v1/":{"username":"v","password":"q","auth":"djpx"}}}`, string(text))
	}
}

func TestUnschedulable(t *testing.T) {
	t.Parallel()
	at := func(reason string) *corev1.Pod {
		return podWith(func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "0/1 nodes are available"}}
		})
	}
	require.Equal(t, "no node takes the pod: 0/1 nodes are available", unschedulable(at("Unschedulable")))
	require.Empty(t, unschedulable(at("SchedulingGated")))
	require.Empty(t, unschedulable(podWith(func(*corev1.Pod) {})))
}

func TestEventLine(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"Pulling": "the node: text", "FailedMount": "the cluster: text (FailedMount)", "FailedScheduling": "", "BackOff": "",
	} {
		require.Equal(t, want, eventLine(&corev1.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: "text "}), reason)
	}
	require.Empty(t, eventLine(&corev1.Event{Type: corev1.EventTypeNormal, Reason: "Scheduled", Message: "text"}))
}

func TestPullError(t *testing.T) {
	t.Parallel()
	pod := podWith(waits(mainContainer, "ContainerCreating", ""))
	event := func(reason, message, path string) *corev1.Event {
		return &corev1.Event{Reason: reason, Message: message, InvolvedObject: corev1.ObjectReference{FieldPath: path}}
	}
	task := "spec.containers{" + mainContainer + "}"
	err := pullError(pod, event("Failed", `Failed to pull image "golang:1.26": not found`, task), run.Definition{})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	require.EqualError(t, err, `image pull failed: Failed to pull image "golang:1.26": not found`)
	err = pullError(pod, event("ErrImageNeverPull", "x", task), run.Definition{})
	require.EqualError(t, err, "image golang:1.26 is not on the node and the pull policy is never")
	require.NoError(t, pullError(pod, event("Failed", "Failed to pull image \"golang:1.26\": pull QPS exceeded", task), run.Definition{}))
	require.NoError(t, pullError(pod, event("Failed", "Error: ErrImagePull", task), run.Definition{}))
	require.NoError(t, pullError(pod, event("Failed", "Failed to pull image \"golang:1.26\": not found", "spec"), run.Definition{}))
	require.NoError(t, pullError(pod, event("Pulling", `Pulling image "golang:1.26"`, task), run.Definition{}))
}
