package executorset

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/run"
)

// watcher is the reconcile loop of Run. Slow operations run in goroutines of
// group.
type watcher struct {
	*Set
	index   *index
	handler executor.KeyHandler
	group   *sync.WaitGroup
}

// reconcileAll reconciles all keys.
func (w *watcher) reconcileAll(ctx context.Context) {
	if w.index == nil {
		return
	}
	for _, object := range w.index.all() {
		w.reconcile(ctx, object)
	}
	now := w.now()
	for _, e := range w.heldEntries() {
		if e.overdue(now) {
			w.group.Go(func() {
				if err := e.flush(); err != nil {
					w.log.DebugContext(ctx, "failed to write lazy lines", "error", err)
				}
			})
		}
	}
	w.removeStaleLeases(ctx)
}

// reconcileChanged reconciles the keys that changed.
func (w *watcher) reconcileChanged(ctx context.Context) {
	if w.index == nil {
		return
	}
	for _, key := range w.takeUnreported() {
		w.group.Go(func() { w.handler.Release(key) })
	}
	for _, object := range w.index.takeChanged() {
		w.reconcile(ctx, object)
	}
}

// reconcile reconciles one key.
func (w *watcher) reconcile(ctx context.Context, object *metav1.PartialObjectMetadata) {
	key, err := run.ParseKey(object.Labels[kubernetes.LabelKey])
	if err != nil || object.Annotations[annotationSet] != w.options.Name {
		return
	}
	w.mu.Lock()
	e, busy := w.entries[key], w.busy[key]
	w.mu.Unlock()
	holder, stored := object.Annotations[annotationHolder], w.index.entry(object.Name) != nil
	switch {
	case busy:
	case e != nil && stored && e.matches(object):
		w.deliver(ctx, e, object)
	case e != nil:
		w.group.Go(func() { w.confirm(ctx, e) })
	case !stored:
	case holder == w.options.Member:
		w.adoptKey(ctx, key, holder)
	case !w.handler.Accepting() || w.Valid() != nil:
	default:
		since, vanished := w.membership.vanished(holder)
		switch {
		case vanished && since >= time.Duration(rank(key, w.options.Member, w.membership.present()))*rankDelay:
			w.adoptKey(ctx, key, holder)
		case !vanished && !w.membership.has(holder):
			w.group.Go(func() { w.checkLease(ctx, holder) })
		}
	}
}

// checkLease reads the lease of a member for which no event came.
func (w *watcher) checkLease(ctx context.Context, member string) {
	ctx, cancel := context.WithTimeoutCause(ctx, writeTimeout, errSlow)
	defer cancel()
	if err := w.readLease(ctx, member); err != nil {
		w.log.DebugContext(ctx, "failed to read a lease", "error", err)
	}
}

// confirm checks whether this member still holds an entry. The index may be
// older than the last write.
func (w *watcher) confirm(ctx context.Context, e *entry) {
	ctx, cancel := context.WithTimeoutCause(ctx, writeTimeout, errSlow)
	defer cancel()
	object, err := w.configMaps().Get(ctx, w.name(e.key), metav1.GetOptions{})
	switch {
	case err == nil && e.matches(object):
	case err == nil || apierrors.IsNotFound(err):
		if e.release() {
			w.handler.Release(e.key)
		}
	default:
		w.log.DebugContext(ctx, "failed to read an entry", "error", err)
		if object := w.index.entry(w.name(e.key)); object != nil {
			return // the next scan decides
		}
		w.index.markChanged(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: w.name(e.key), Labels: kubernetes.Labels(e.key, w.options.Member, w.options.Name),
			Annotations: map[string]string{annotationSet: w.options.Name},
		}})
	}
}

// deliver delivers the orders for a key to the executor.
func (w *watcher) deliver(ctx context.Context, e *entry, object *metav1.PartialObjectMetadata) {
	stop, adopt := e.orders.takeNew(object.Annotations)
	if stop != "" {
		w.group.Go(func() {
			if !w.handler.Deliver(ctx, e.key, executor.KeyRequest{Stop: true, Force: stop == stopForced}) {
				e.orders.resetStop()
			}
		})
	}
	if adopt == "" {
		return
	}
	token, err := base64.StdEncoding.DecodeString(adopt)
	if err != nil {
		w.log.WarnContext(ctx, "failed to decode an order to adopt", "error", err)
		return
	}
	w.group.Go(func() {
		taken := false
		w.handler.Deliver(ctx, e.key, executor.KeyRequest{Token: token, Ack: func() {
			taken = true
			e.markAdopted(token)
		}})
		if !taken {
			e.orders.resetAdopt(adopt)
		}
	})
}

// adoptKey adopts a key. It also picks up a key that this member already holds
// without knowing: the answer to a write was lost, or the executor was not
// ready for the key.
func (w *watcher) adoptKey(ctx context.Context, key run.Key, from string) {
	if w.reserve(key) != nil {
		return
	}
	w.group.Go(func() {
		e, err := w.adopt(ctx, key, from)
		w.finishReservation(key, e, err)
		if err != nil {
			w.log.DebugContext(ctx, "failed to adopt a key", "key", key.String(), "error", err)
			return
		}
		if err := w.handler.Adopt(ctx, executor.JournalEntry{Key: key, Content: bytes.Clone(e.content), Lines: e}); err != nil {
			w.log.DebugContext(ctx, "the executor refused an adopted key", "key", key.String(), "error", err)
			w.closeEntry(e)
		}
	})
}

// adopt makes this member the holder of a key. The error has CodeConflict if
// another member was faster, or if the holder has not vanished.
func (w *watcher) adopt(ctx context.Context, key run.Key, from string) (*entry, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, writeTimeout, errSlow)
	defer cancel()
	if from != w.options.Member {
		// The index may have missed a renewal.
		if err := w.readLease(ctx, from); err != nil {
			return nil, err
		}
		if _, vanished := w.membership.vanished(from); !vanished {
			return nil, run.Errorf(run.CodeConflict, "member %s has not vanished", from)
		}
	}
	object, err := w.configMaps().Get(ctx, w.name(key), metav1.GetOptions{})
	if err != nil {
		return nil, kubernetes.ServerError(err, "read the entry of %s", key)
	}
	if object.Annotations[annotationHolder] != from {
		return nil, run.Errorf(run.CodeConflict, "another member holds %s", key)
	}
	if from != w.options.Member {
		object = object.DeepCopy()
		object.Annotations[annotationHolder] = w.options.Member
		object.Annotations[annotationTerm] = nextTerm(object.Annotations[annotationTerm])
		if object, err = w.configMaps().Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			return nil, kubernetes.ServerError(err, "adopt %s", key)
		}
		w.log.InfoContext(ctx, "adopted a key", "key", key.String(), "from", from)
	}
	return w.entryOf(key, object), nil
}

// entryOf returns the entry for an object that this member holds.
func (s *Set) entryOf(key run.Key, object *corev1.ConfigMap) *entry {
	e := &entry{set: s, key: key, term: object.Annotations[annotationTerm], content: []byte(object.Data[journalField])}
	e.setObject(object)
	return e
}

// removeStaleLeases removes the leases of members that vanished long ago and hold no keys.
func (w *watcher) removeStaleLeases(ctx context.Context) {
	if w.Valid() != nil {
		return
	}
	var holders map[string]bool
	for _, lease := range w.index.members() {
		if !w.ofSet(lease) {
			continue
		}
		if since, vanished := w.membership.vanished(*lease.Spec.HolderIdentity); !vanished || since < leaseRetention {
			continue
		}
		if holders == nil {
			holders = make(map[string]bool)
			for _, object := range w.index.all() {
				holders[object.Annotations[annotationHolder]] = true
			}
		}
		if !holders[*lease.Spec.HolderIdentity] {
			w.group.Go(func() { w.removeLease(ctx, lease) })
		}
	}
	w.membership.prune(leaseRetention)
}

// verify finds the keys that this member lost while its lease was expired.
func (s *Set) verify(ctx context.Context) error {
	entries := s.heldEntries()
	if len(entries) == 0 {
		return nil
	}
	found, err := s.meta.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(s.options.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: kubernetes.LabelSet + "=" + kubernetes.LabelValue(s.options.Name) + "," + kubernetes.LabelKey})
	if err != nil {
		return kubernetes.ServerError(err, "list the entries of the set")
	}
	byName := make(map[string]*metav1.PartialObjectMetadata, len(found.Items))
	for i := range found.Items {
		byName[found.Items[i].Name] = &found.Items[i]
	}
	for _, e := range entries {
		if object := byName[s.name(e.key)]; (object == nil || !e.matches(object)) && e.release() {
			s.mu.Lock()
			s.unreported = append(s.unreported, e.key)
			s.mu.Unlock()
		}
	}
	s.wake()
	return nil
}

func (s *Set) takeUnreported() []run.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.unreported
	s.unreported = nil
	return keys
}

// Request implements executor.Shared. It writes the order to the entry, where the
// current or next holder of the key finds it.
func (s *Set) Request(ctx context.Context, key run.Key, o executor.KeyRequest) (bool, error) {
	annotations := make(map[string]string)
	if o.Stop {
		annotations[annotationStop] = stopPlain
	}
	if o.Stop && o.Force {
		annotations[annotationStop] = stopForced
	}
	if o.Token != nil {
		annotations[annotationAdopt] = encodeToken(o.Token)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, writeTimeout, errSlow)
	defer cancel()
	_, err = s.configMaps().Patch(ctx, s.name(key), types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, unavailable(kubernetes.ServerError(err, "write an order for %s", key))
	}
	return true, nil
}
