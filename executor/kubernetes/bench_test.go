package kubernetes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/drover-run/drover/executor"
)

// BenchmarkTask runs a task of one command with its images present, alternating
// with a bare pod of the same image and command, which is watched. Besides the
// time until the task is removed ("ns/op") it reports the times of the bare pod
// and the ratios to them: until the task's result is known, and until it is
// removed.
func BenchmarkTask(b *testing.B) {
	e := newBench(b)
	e.timeTask(b)
	var ended, removed, bareEnded, bareRemoved time.Duration
	for b.Loop() {
		toEnd, toRemoval := e.timeTask(b)
		ended, removed = ended+toEnd, removed+toRemoval
		b.StopTimer()
		toEnd, toRemoval = e.timeBare(b)
		bareEnded, bareRemoved = bareEnded+toEnd, bareRemoved+toRemoval
		b.StartTimer()
	}
	b.ReportMetric(float64(bareEnded)/float64(b.N), "bare-end-ns/op")
	b.ReportMetric(float64(ended)/float64(b.N), "end-ns/op")
	b.ReportMetric(float64(ended)/float64(bareEnded), "end-ratio")
	b.ReportMetric(float64(removed)/float64(bareRemoved), "removal-ratio")
}

func (b *bench) timeTask(t testing.TB) (toEnd, toRemoval time.Duration) {
	t.Helper()
	began := time.Now()
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: b.definition(t, "true"), Launch: launchAt(1)})
	require.NoError(t, err)
	for _, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
	}
	toEnd = time.Since(began)
	require.NoError(t, h.Remove(context.WithoutCancel(t.Context())))
	return toEnd, time.Since(began)
}

func (b *bench) timeBare(t testing.TB) (toEnd, toRemoval time.Duration) {
	t.Helper()
	began := time.Now()
	pods := b.client.CoreV1().Pods(b.namespace)
	no := false
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bare-"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{
				Name: "task", Image: b.cluster.Image, ImagePullPolicy: corev1.PullNever, Command: []string{"/bin/sh", "-ec", "true"},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	b.awaitBare(t, pod, func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == corev1.PodSucceeded })
	toEnd = time.Since(began)
	grace := int64(1)
	require.NoError(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	b.awaitBare(t, pod, func(pod *corev1.Pod) bool { return pod == nil })
	return toEnd, time.Since(began)
}

// awaitBare watches a pod until the condition holds.
func (b *bench) awaitBare(t testing.TB, pod *corev1.Pod, desired func(*corev1.Pod) bool) {
	t.Helper()
	events, err := b.client.CoreV1().Pods(b.namespace).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String(),
	})
	require.NoError(t, err)
	defer events.Stop()
	_, err = b.client.CoreV1().Pods(b.namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && desired(nil) { // the pod was gone before the watch began
		return
	}
	for event := range events.ResultChan() {
		now, _ := event.Object.(*corev1.Pod)
		if event.Type == "DELETED" {
			now = nil
		}
		if desired(now) {
			return
		}
	}
	require.Fail(t, "the watch ended")
}
