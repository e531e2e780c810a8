package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

const (
	// maxLostPods is how many pods of one start may be lost, to an eviction or to
	// a node without room, before the start fails.
	maxLostPods = 3
	// quotaPause is the pause before another try to create a pod that exceeded
	// the namespace's quota. No event reports when there is room.
	quotaPause = 2 * time.Second
	// sendTries is how often the driver sends the order before it leaves that
	// to a later start, and sendPause the pause between.
	sendTries = 3
	sendPause = 300 * time.Millisecond
	// cleanupTimeout bounds the removal of what a failed start created.
	cleanupTimeout = 30 * time.Second
)

// Start implements executor.Driver. The steps of a key run at most once because
// the containers of its pod are started once, and the shim there takes one
// order. A pod that already exists may get its order as long as it has none.
func (d *Driver) Start(ctx context.Context, task executor.Task) (_ executor.Handle, err error) {
	if task.Definition, err = executor.WithCheckoutImage(task.Definition, d.options.CheckoutImage); err != nil {
		return nil, err
	}
	s := &starting{driver: d, task: task, log: task.Log}
	if s.log == nil {
		s.log = func(string) {}
	}
	if slices.ContainsFunc(task.Definition.Steps, func(step run.StepDef) bool { return step.Checkout != nil && step.Checkout.Reuse }) {
		s.log("reuse of a checkout has no effect in pods: it fetches everything")
	}
	if !task.Resume {
		if s.desired, err = d.newPod(task.Definition); err != nil {
			return nil, err
		}
		s.id = newNonce()
		s.desired.Annotations[annotationStarter] = s.id
	}
	unlock, err := d.locks.Lock(ctx, s.key())
	if err != nil {
		return nil, ServerError(err, "wait for another operation on %s", s.key())
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
		return s.handle(), nil
	}
	return s.launch(ctx)
}

func (s *starting) handle() *handle {
	h := s.driver.handleOf(s.key(), s.pod)
	if !s.task.HideServices {
		h.secrets = mask.NewSet(s.task.Definition.Secrets)
	}
	return h
}

// starting is one call of Start.
type starting struct {
	driver       *Driver
	task         executor.Task
	log          func(string)
	id           string // of this call
	desired      *corev1.Pod
	pod          *corev1.Pod // created or found, in its last observed state
	launched     bool        // task.Launch returned no error
	lastLine     string      // last line that logOnce logged
	waitingSince time.Time   // since when the pod waits for room
	lastReport   time.Time   // when the pod's events were last listed
	reports      []string    // events already reported
}

func (s *starting) key() run.Key { return s.task.Definition.Key }

// giveUp removes what was created, if it is certain that no step has run and
// that no other call has taken the pod over.
func (s *starting) giveUp(ctx context.Context) {
	if s.pod == nil || s.launched || s.task.Resume || s.task.Keep {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for {
		err := s.removeOwn(ctx)
		if run.CodeOf(err) == run.CodeConflict {
			continue // the pod has changed meanwhile
		}
		if err != nil {
			s.driver.log.WarnContext(ctx, "failed to remove a failed environment", "key", s.key().String(), "error", err)
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

// resume finds the pod of a key that was launched before.
func (s *starting) resume(ctx context.Context) (begun bool, err error) {
	d := s.driver
	if s.pod, err = d.get(ctx, s.key()); err != nil {
		return false, err
	}
	if !mainRuns(s.pod) && !isOver(s.pod) {
		err = s.awaitRunning(ctx)
		if gone, ok := errors.AsType[*lostError](err); ok {
			err = run.Errorf(run.CodeNotFound, "%s", gone.reason)
		}
		return false, err
	}
	if isOver(s.pod) {
		return true, nil // its frames, and the reason of its end, are all there is
	}
	return d.hasBegun(ctx, s.pod)
}

// prepare creates a pod and waits until it is ready for its order.
func (s *starting) prepare(ctx context.Context) (begun bool, err error) {
	for lost := 0; ; lost++ {
		for s.pod = nil; s.pod == nil; {
			if begun, err = s.createOrFind(ctx); err != nil || begun {
				return begun, err
			}
		}
		if isGated(s.pod) {
			if err := s.addSecrets(ctx); err != nil {
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
		if lost+1 == maxLostPods {
			return false, run.Errorf(run.CodeUnavailable, "%d pods in turn were lost before the task could begin: %s", maxLostPods, gone.reason)
		}
		s.log(gone.reason + "; creating another one")
		if err := s.driver.removePod(ctx, s.pod, nil); err != nil {
			return false, err
		}
	}
}

// lostError reports that a pod was lost before the task could begin.
type lostError struct{ reason string }

func (e *lostError) Error() string { return e.reason }

// createOrFind creates the pod, or finds an existing one. If it returns neither a pod
// nor an error, call it again.
func (s *starting) createOrFind(ctx context.Context) (begun bool, err error) {
	d := s.driver
	if ctx.Err() != nil {
		return false, ServerError(context.Cause(ctx), "start the environment")
	}
	// A call that creates something is not cut short when the caller gives up:
	// the driver could not know what to remove.
	call, cancel := d.call(context.WithoutCancel(ctx))
	defer cancel()
	pod, err := d.pods().Create(call, s.desired, metav1.CreateOptions{})
	switch {
	case err == nil:
		s.pod = pod
		s.logOnce(fmt.Sprintf("created pod %s in namespace %s", pod.Name, pod.Namespace))
		return false, nil
	case apierrors.IsAlreadyExists(err):
		return s.find(ctx)
	}
	switch refusalOf(err) {
	case refusedPermanently:
		return false, &run.Error{Code: run.CodeInvalid, Message: "the cluster refused the pod: " + err.Error(), Err: err}
	case refusedTemporarily:
		if err := s.reportWait("no room in the namespace: " + err.Error()); err != nil {
			return false, err
		}
		return false, pause(ctx, quotaPause)
	default:
		return false, ServerError(err, "create the pod")
	}
}

// find examines a pod that an earlier call created.
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

// takeOver makes this call the owner of a pod that another call created. If the
// pod is gone, s.pod stays unchanged.
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
	return ServerError(err, "take the pod over")
}

// hasBegun reports whether a step of the task may have run in the pod.
func (d *Driver) hasBegun(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if mainRuns(pod) {
		return d.hasJournal(ctx, pod.Name)
	}
	if terminated(pod, mainContainer) == nil {
		return false, nil // the container never ran
	}
	begun := false
	err := d.readLog(ctx, pod.Name, pod.Annotations[annotationNonce], 0, func(run.Frame) bool {
		begun = true
		return false
	})
	return begun, err
}

// launch records the launch with the executor, and sends the order to the shim.
func (s *starting) launch(ctx context.Context) (_ *handle, err error) {
	d := s.driver
	if ctx.Err() != nil {
		return nil, ServerError(context.Cause(ctx), "start the environment")
	}
	first, err := s.task.Launch()
	if err != nil {
		return nil, run.Errorf(codeOf(err), "record the launch: %w", err)
	}
	s.launched = true
	order, err := s.order(first)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		session, err := d.sendOrder(ctx, s.pod.Name, order)
		switch {
		case err == nil:
			d.storeSession(s.key(), session)
			return s.handle(), nil
		case run.CodeOf(err) == run.CodeInvalid:
			h := s.handle()
			h.fault = executor.Ended(run.CauseStart, err.Error())
			return h, nil
		case try == sendTries:
			return nil, err
		}
		if err := pause(ctx, sendPause); err != nil {
			return nil, err
		}
	}
}

// order returns the order for the shim, as one line. It omits what only the
// driver needs.
func (s *starting) order(first int64) ([]byte, error) {
	def := s.task.Definition
	def.Auth, def.Services, def.Kubernetes = nil, nil, nil
	order := run.ShimSpec{Version: run.RequiredSpecVersion(&def), FirstFrame: first, Definition: def, Helpers: helperSpecs(&def)}
	if len(def.SecretFiles) > 0 {
		order.SecretsDir = secretsDir
	}
	text, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("encode the shim's order: %w", err)
	}
	return append(text, '\n'), nil
}

// logOnce writes a line to the setup log, unless it repeats the last one.
func (s *starting) logOnce(line string) {
	if line != s.lastLine {
		s.lastLine = line
		s.log(line)
	}
}

// reportWait reports why the pod waits for room, and fails when that has taken too
// long.
func (s *starting) reportWait(reason string) error {
	if s.waitingSince.IsZero() {
		s.waitingSince = time.Now()
	}
	s.logOnce("waiting: " + reason)
	limit := s.driver.options.PendingTimeout
	if limit > 0 && time.Since(s.waitingSince) > limit {
		return run.Errorf(run.CodeInvalid, "after %s %s", limit, reason)
	}
	return nil
}
