package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

const (
	// podsLost is how many pods of a start may be lost, to an eviction or to a
	// node that has no room after all, before it gives up.
	podsLost = 3
	// quotaPause is the pause before a pod for which the namespace had no room
	// is tried again. Nothing tells when there is.
	quotaPause = 2 * time.Second
	// handTries is how often the order is handed over before that is left to a
	// later start, and handPause the pause between.
	handTries = 3
	handPause = 300 * time.Millisecond
	// cleanup bounds the removal of what a failed start made.
	cleanup = 30 * time.Second
)

// Start implements executor.Driver. The steps of a key run at most once because
// its pod's containers are started once, and the shim in there takes one order.
// A pod that is found may be given its order as long as it has none.
func (d *Driver) Start(ctx context.Context, task executor.Task) (_ executor.Handle, err error) {
	s := &starting{driver: d, task: task, log: task.Log}
	if s.log == nil {
		s.log = func(string) {}
	}
	if !task.Resume {
		if s.wanted, err = d.newPod(task.Definition); err != nil {
			return nil, err
		}
		s.id = newNonce()
		s.wanted.Annotations[annotationStarter] = s.id
	}
	unlock, err := d.locks.Lock(ctx, s.key())
	if err != nil {
		return nil, serverError(err, "waiting for another call about %s", s.key())
	}
	defer unlock()
	defer func() {
		if err != nil {
			s.giveUp(ctx)
		}
	}()
	var begun bool
	if task.Resume {
		begun, err = s.resume(ctx)
	} else {
		begun, err = s.prepare(ctx)
	}
	if err != nil {
		return nil, err
	}
	if begun {
		return d.handleOf(s.key(), s.pod), nil
	}
	return s.launch(ctx)
}

// starting is one call of Start.
type starting struct {
	driver   *Driver
	task     executor.Task
	log      func(string)
	id       string // of this call
	wanted   *corev1.Pod
	pod      *corev1.Pod // that was made or found, as it was seen last
	launched bool        // task.Launch has agreed
	told     string      // the last line of why it waits
	waiting  time.Time   // since when there is no room for it
	reported time.Time   // when the cluster's events were asked for last
	reports  []string    // that were told
}

func (s *starting) key() run.Key { return s.task.Definition.Key }

// giveUp removes what was made, if it is certain that no step has run, and that
// nobody else has taken it over.
func (s *starting) giveUp(ctx context.Context) {
	if s.pod == nil || s.launched || s.task.Resume || s.task.Keep {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	for {
		err := s.removeOwn(ctx)
		if run.CodeOf(err) == run.CodeConflict {
			continue // its state has changed meanwhile
		}
		if err != nil {
			s.driver.log.WarnContext(ctx, "removing a failed environment", "key", s.key().String(), "error", err)
		}
		return
	}
}

func (s *starting) removeOwn(ctx context.Context) error {
	d := s.driver
	pod, err := d.pod(ctx, s.pod.Name)
	if err != nil || pod == nil || pod.UID != s.pod.UID || pod.Annotations[annotationStarter] != s.id {
		return err
	}
	begun, err := d.hasBegun(ctx, pod)
	if err != nil || begun {
		return err
	}
	return d.removePod(ctx, pod, &pod.ResourceVersion)
}

// resume finds the pod of a key that was launched.
func (s *starting) resume(ctx context.Context) (begun bool, err error) {
	d := s.driver
	if s.pod, err = d.get(ctx, s.key()); err != nil {
		return false, err
	}
	if !mainRuns(s.pod) && !isOver(s.pod) {
		err = s.awaitRunning(ctx)
		if gone, ok := errors.AsType[*lostError](err); ok {
			err = run.Errorf(run.CodeNotFound, "%s", gone.why)
		}
		return false, err
	}
	if isOver(s.pod) {
		return true, nil // what it told, and why it ended, is all there is
	}
	return d.hasBegun(ctx, s.pod)
}

// prepare has a pod run that waits for its order.
func (s *starting) prepare(ctx context.Context) (begun bool, err error) {
	for lost := 0; ; lost++ {
		for s.pod = nil; s.pod == nil; {
			if begun, err = s.obtain(ctx); err != nil || begun {
				return begun, err
			}
		}
		if isGated(s.pod) {
			if err := s.addSecret(ctx); err != nil {
				return false, err
			}
		}
		if err = s.awaitRunning(ctx); err == nil {
			err = s.awaitServices(ctx)
		}
		if err == nil {
			return false, nil
		}
		var gone *lostError
		if !errors.As(err, &gone) {
			return false, err
		}
		if lost+1 == podsLost {
			return false, run.Errorf(run.CodeUnavailable, "%d pods in turn were lost before the task could begin: %s", podsLost, gone.why)
		}
		s.log(gone.why + "; making another one")
		if err := s.driver.removePod(ctx, s.pod, nil); err != nil {
			return false, err
		}
	}
}

// lostError says that a pod was lost before the task could begin.
type lostError struct{ why string }

func (e *lostError) Error() string { return e.why }

// obtain makes the pod, or finds that it is there. With neither a pod nor an
// error it is to be called again.
func (s *starting) obtain(ctx context.Context) (begun bool, err error) {
	d := s.driver
	if ctx.Err() != nil {
		return false, serverError(context.Cause(ctx), "starting the environment")
	}
	// A call that makes something is not cut short when the caller gives up:
	// it would not be known what there is to remove.
	call, cancel := d.call(context.WithoutCancel(ctx))
	defer cancel()
	pod, err := d.pods().Create(call, s.wanted, metav1.CreateOptions{})
	switch {
	case err == nil:
		s.pod = pod
		s.tell(fmt.Sprintf("pod %s is made in namespace %s", pod.Name, pod.Namespace))
		return false, nil
	case apierrors.IsAlreadyExists(err):
		return s.find(ctx)
	}
	switch refusalOf(err) {
	case refusedForGood:
		return false, &run.Error{Code: run.CodeInvalid, Message: "the cluster refused the pod: " + err.Error(), Err: err}
	case refusedForNow:
		if err := s.wait("no room in the namespace: " + err.Error()); err != nil {
			return false, err
		}
		return false, pause(ctx, quotaPause)
	default:
		return false, serverError(err, "making the pod")
	}
}

// find looks at a pod that an earlier call made.
func (s *starting) find(ctx context.Context) (begun bool, err error) {
	d := s.driver
	pod, err := d.get(ctx, s.key())
	if run.CodeOf(err) == run.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if begun, err = d.hasBegun(ctx, pod); err != nil || begun {
		s.pod = pod
		return begun, err
	}
	if pod.DeletionTimestamp == nil && !isOver(pod) {
		return false, s.takeOver(ctx, pod)
	}
	return false, d.removePod(ctx, pod, nil)
}

// takeOver makes a pod that another call has made this one's, and leaves s.pod
// as it was where that is gone.
func (s *starting) takeOver(ctx context.Context, pod *corev1.Pod) error {
	call, cancel := s.driver.call(ctx)
	defer cancel()
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, pod.UID, annotationStarter, s.id)
	pod, err := s.driver.pods().Patch(call, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	switch {
	case err == nil:
		s.pod = pod
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	}
	return serverError(err, "taking the pod over")
}

// hasBegun reports whether a step of the task may have run in the pod.
func (d *Driver) hasBegun(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if mainRuns(pod) {
		return d.hasJournal(ctx, pod.Name)
	}
	if terminated(pod, mainContainer) == nil {
		return false, nil // it never ran
	}
	begun := false
	err := d.logged(ctx, pod.Name, pod.Annotations[annotationNonce], 0, func(run.Frame) bool {
		begun = true
		return false
	})
	return begun, err
}

// launch tells the executor, and hands the order over.
func (s *starting) launch(ctx context.Context) (_ *handle, err error) {
	d := s.driver
	if ctx.Err() != nil {
		return nil, serverError(context.Cause(ctx), "starting the environment")
	}
	first, err := s.task.Launch()
	if err != nil {
		return nil, run.Errorf(codeOf(err), "recording the launch: %w", err)
	}
	s.launched = true
	order, err := s.order(first)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		session, err := d.hand(ctx, s.pod.Name, order)
		switch {
		case err == nil:
			d.keep(s.key(), session)
			return d.handleOf(s.key(), s.pod), nil
		case run.CodeOf(err) == run.CodeInvalid:
			h := d.handleOf(s.key(), s.pod)
			h.fault = executor.Ended(run.CauseStart, err.Error())
			return h, nil
		case try == handTries:
			return nil, err
		}
		if err := pause(ctx, handPause); err != nil {
			return nil, err
		}
	}
}

// order is what the shim gets, as one line. It holds nothing that only the
// driver needs.
func (s *starting) order(first int64) ([]byte, error) {
	def := s.task.Definition
	def.Auth, def.Services, def.Kubernetes = nil, nil, nil
	order := run.ShimOrder{Version: run.OrderVersion(&def), FirstFrame: first, Definition: def}
	if len(def.SecretFiles) > 0 {
		order.SecretsDir = secretsDir
	}
	text, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("encoding the shim's order: %w", err)
	}
	return append(text, '\n'), nil
}

// tell logs a line of the setup, once.
func (s *starting) tell(line string) {
	if line != s.told {
		s.told = line
		s.log(line)
	}
}

// wait tells why there is no room for the pod, and fails when that has taken
// too long.
func (s *starting) wait(why string) error {
	if s.waiting.IsZero() {
		s.waiting = time.Now()
	}
	s.tell("waiting: " + why)
	limit := s.driver.options.PendingTimeout
	if limit > 0 && time.Since(s.waiting) > limit {
		return run.Errorf(run.CodeInvalid, "after %s %s", limit, why)
	}
	return nil
}
