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
	// watchLimit is how long one watch lasts: then the pod is asked for anew,
	// should the watch have gone deaf.
	watchLimit = 30 * time.Second
	// watchPause is the pause before a watch that failed is tried again.
	watchPause = 500 * time.Millisecond
	// watchTick is how often the state is looked at although it did not
	// change: time passes.
	watchTick = 500 * time.Millisecond
	// outageLimit is how long the API server may be away while a pod is
	// waited for.
	outageLimit = 30 * time.Second
)

// await calls look with each state of a pod, nil once it is not there, until
// that has seen enough. Short outages of the server are waited out.
func (d *Driver) await(ctx context.Context, name string, look func(*corev1.Pod) (enough bool, err error)) error {
	var since time.Time // the server was away
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
		if code := run.CodeOf(err); code != run.CodeUnavailable || time.Since(since) > outageLimit {
			return err
		}
		if err := pause(ctx, watchPause); err != nil {
			return err
		}
	}
}

// pod returns nil where there is no such pod.
func (d *Driver) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	call, cancel := d.call(ctx)
	defer cancel()
	pod, err := d.pods().Get(call, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return pod, nil
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // as it says
	case ctx.Err() == nil && call.Err() != nil:
		err = context.Cause(call)
	}
	return nil, serverError(err, "looking at the pod %s", name)
}

// awaitChange watches a pod for a while.
func (d *Driver) awaitChange(ctx context.Context, pod *corev1.Pod, name string, look func(*corev1.Pod) (bool, error)) (bool, error) {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	if pod != nil {
		options.ResourceVersion = pod.ResourceVersion
	}
	limited, cancel := context.WithTimeout(ctx, watchLimit)
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
			return false, serverError(context.Cause(ctx), "waiting for the pod %s", name)
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
