package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/drover-run/drover/run"
)

const (
	// watchTimeout is how long one watch lasts. The pod is then read again, in
	// case the watch missed changes.
	watchTimeout = 30 * time.Second
	// watchPause is the pause after a failed watch.
	watchPause = 500 * time.Millisecond
	// watchTick is the interval at which the state is examined although it did
	// not change, for timeouts.
	watchTick = 500 * time.Millisecond
	// outageTimeout is how long the API server may be unavailable during a wait
	// for a pod.
	outageTimeout = 30 * time.Second
)

// await calls look with each state of a pod, nil once the pod does not exist,
// until look returns enough. It waits during short outages of the server.
func (d *Driver) await(ctx context.Context, name string, look func(*corev1.Pod) (enough bool, err error)) error {
	var since time.Time // when the server became unavailable
	for {
		pod, err := d.pod(ctx, name)
		if err == nil {
			since = time.Time{}
			if enough, err := look(pod); enough || err != nil {
				return err
			}
			enough, err := d.awaitChange(ctx, pod, name, look)
			if enough || err != nil {
				return err
			}
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		if code := run.CodeOf(err); code != run.CodeUnavailable || time.Since(since) > outageTimeout {
			return err
		}
		if err := pause(ctx, watchPause); err != nil {
			return err
		}
	}
}

// pod returns a pod, or nil if it does not exist.
func (d *Driver) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	call, cancel := d.call(ctx)
	defer cancel()
	pod, err := d.pods().Get(call, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return pod, nil
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // no pod
	case ctx.Err() == nil && call.Err() != nil:
		err = context.Cause(call)
	}
	return nil, ServerError(err, "inspect the pod %s", name)
}

// awaitChange watches a pod for a while.
func (d *Driver) awaitChange(ctx context.Context, pod *corev1.Pod, name string, look func(*corev1.Pod) (bool, error)) (bool, error) {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	if pod != nil {
		options.ResourceVersion = pod.ResourceVersion
	}
	limited, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	events, err := d.pods().Watch(limited, options)
	if err != nil {
		return false, pause(ctx, watchPause)
	}
	defer events.Stop()
	ticker := time.NewTicker(watchTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ServerError(context.Cause(ctx), "wait for the pod %s", name)
		case <-ticker.C:
		case event, open := <-events.ResultChan():
			if !open || event.Type == watch.Error {
				return false, pause(ctx, watchTick/10)
			}
			changed, known := event.Object.(*corev1.Pod)
			if !known {
				continue
			}
			pod = changed
			if event.Type == watch.Deleted {
				pod = nil
			}
		}
		if enough, err := look(pod); enough || err != nil {
			return enough, err
		}
	}
}
