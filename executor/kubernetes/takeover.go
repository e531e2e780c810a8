package kubernetes

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// watcher is the reconcile loop of Run. Slow operations run in goroutines of
// group.
type watcher struct {
	*Set
	index  *index
	keeper executor.Keeper
	group  *sync.WaitGroup
}

// lookAll reconciles all keys.
func (w *watcher) lookAll(ctx context.Context) {
	if w.index == nil {
		return
	}
	for _, object := range w.index.all() {
		w.consider(ctx, object)
	}
	now := w.now()
	for _, p := range w.pages() {
		if p.overdue(now) {
			w.group.Go(func() {
				if err := p.flush(); err != nil {
					w.log.Debug("failed to write lazy lines", slog.Any("error", err))
				}
			})
		}
	}
	w.sweep(ctx)
}

// lookNew reconciles the keys that changed.
func (w *watcher) lookNew(ctx context.Context) {
	if w.index == nil {
		return
	}
	for _, key := range w.takeFallen() {
		w.group.Go(func() { w.keeper.Lose(key) })
	}
	for _, object := range w.index.take() {
		w.consider(ctx, object)
	}
}

// consider reconciles one key.
func (w *watcher) consider(ctx context.Context, object *metav1.PartialObjectMetadata) {
	key, err := run.ParseKey(object.Labels[LabelKey])
	if err != nil || object.Annotations[annotationSet] != w.options.Name {
		return
	}
	w.mu.Lock()
	p, busy := w.open[key], w.busy[key]
	w.mu.Unlock()
	holder, stored := object.Annotations[annotationHolder], w.index.page(object.Name) != nil
	switch {
	case busy:
	case p != nil && stored && p.is(object):
		w.pass(ctx, p, object)
	case p != nil:
		w.group.Go(func() { w.confirm(ctx, p) })
	case !stored:
	case holder == w.options.Member:
		w.claim(ctx, key, holder)
	case !w.keeper.Willing() || w.Valid() != nil:
	default:
		since, vanished := w.roster.vanished(holder)
		switch {
		case vanished && since >= time.Duration(turn(key, w.options.Member, w.roster.present()))*turnEach:
			w.claim(ctx, key, holder)
		case !vanished && !w.roster.knows(holder):
			w.group.Go(func() { w.ask(ctx, holder) })
		}
	}
}

// ask reads the lease of a member for which no event came.
func (w *watcher) ask(ctx context.Context, member string) {
	ctx, cancel := context.WithTimeoutCause(ctx, writeLimit, errSlow)
	defer cancel()
	if err := w.leaseOf(ctx, member); err != nil {
		w.log.Debug("failed to read a lease", slog.Any("error", err))
	}
}

// confirm checks whether this member still holds an entry. The index may be
// older than the last write.
func (w *watcher) confirm(ctx context.Context, p *page) {
	ctx, cancel := context.WithTimeoutCause(ctx, writeLimit, errSlow)
	defer cancel()
	object, err := w.configMaps().Get(ctx, w.name(p.key), metav1.GetOptions{})
	switch {
	case err == nil && p.is(object):
	case err == nil || apierrors.IsNotFound(err):
		if p.lose() {
			w.keeper.Lose(p.key)
		}
	default:
		w.log.Debug("failed to read an entry", slog.Any("error", err))
		if object := w.index.page(w.name(p.key)); object != nil {
			return // the next scan decides
		}
		w.index.note(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: w.name(p.key), Labels: Labels(p.key, w.options.Member, w.options.Name),
			Annotations: map[string]string{annotationSet: w.options.Name},
		}})
	}
}

// pass delivers the orders for a key to the executor.
func (w *watcher) pass(ctx context.Context, p *page, object *metav1.PartialObjectMetadata) {
	stop, adopt := p.orders.fresh(object.Annotations)
	if stop {
		w.group.Go(func() {
			if !w.keeper.Ordered(ctx, p.key, executor.Order{Stop: true}) {
				p.orders.forgetStop()
			}
		})
	}
	if adopt == "" {
		return
	}
	token, err := base64.StdEncoding.DecodeString(adopt)
	if err != nil {
		w.log.Warn("failed to decode an order to adopt", slog.Any("error", err))
		return
	}
	w.group.Go(func() {
		taken := false
		w.keeper.Ordered(ctx, p.key, executor.Order{Token: token, Taken: func() {
			taken = true
			p.done(token)
		}})
		if !taken {
			p.orders.forgetAdopt(adopt)
		}
	})
}

// claim adopts a key. It also picks up a key that this member already holds
// without knowing: the answer to a write was lost, or the executor was not
// ready for the key.
func (w *watcher) claim(ctx context.Context, key run.Key, from string) {
	if w.reserve(key) != nil {
		return
	}
	w.group.Go(func() {
		p, err := w.takeOver(ctx, key, from)
		w.settle(key, p, err)
		if err != nil {
			w.log.Debug("failed to adopt a key", slog.String("key", key.String()), slog.Any("error", err))
			return
		}
		if err := w.keeper.Gain(ctx, executor.Page{Key: key, Content: bytes.Clone(p.content), Lines: p}); err != nil {
			w.log.Debug("the executor refused an adopted key", slog.String("key", key.String()), slog.Any("error", err))
			w.part(p)
		}
	})
}

// takeOver makes this member the holder of a key. The error has CodeConflict if
// another member was faster, or if the holder has not vanished.
func (w *watcher) takeOver(ctx context.Context, key run.Key, from string) (*page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, writeLimit, errSlow)
	defer cancel()
	if from != w.options.Member {
		// The index may have missed a renewal.
		if err := w.leaseOf(ctx, from); err != nil {
			return nil, err
		}
		if _, vanished := w.roster.vanished(from); !vanished {
			return nil, run.Errorf(run.CodeConflict, "member %s has not vanished", from)
		}
	}
	object, err := w.configMaps().Get(ctx, w.name(key), metav1.GetOptions{})
	if err != nil {
		return nil, serverError(err, "read the entry of %s", key)
	}
	if object.Annotations[annotationHolder] != from {
		return nil, run.Errorf(run.CodeConflict, "another member holds %s", key)
	}
	if from != w.options.Member {
		object = object.DeepCopy()
		object.Annotations[annotationHolder] = w.options.Member
		object.Annotations[annotationTerm] = nextTerm(object.Annotations[annotationTerm])
		if object, err = w.configMaps().Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			return nil, serverError(err, "adopt %s", key)
		}
		w.log.Info("adopted a key", slog.String("key", key.String()), slog.String("from", from))
	}
	return w.pageOf(key, object), nil
}

// pageOf returns the entry for an object that this member holds.
func (s *Set) pageOf(key run.Key, object *corev1.ConfigMap) *page {
	p := &page{set: s, key: key, term: object.Annotations[annotationTerm], content: []byte(object.Data[pageField])}
	p.adopt(object)
	return p
}

// sweep removes the leases of members that vanished long ago and hold no keys.
func (w *watcher) sweep(ctx context.Context) {
	if w.Valid() != nil {
		return
	}
	var holders map[string]bool
	for _, lease := range w.index.members() {
		if !w.ofSet(lease) {
			continue
		}
		if since, vanished := w.roster.vanished(*lease.Spec.HolderIdentity); !vanished || since < sweepAfter {
			continue
		}
		if holders == nil {
			holders = make(map[string]bool)
			for _, object := range w.index.all() {
				holders[object.Annotations[annotationHolder]] = true
			}
		}
		if !holders[*lease.Spec.HolderIdentity] {
			w.group.Go(func() { w.sweepLease(ctx, lease) })
		}
	}
	w.roster.prune(sweepAfter)
}

// verify finds the keys that this member lost while its lease was expired.
func (s *Set) verify(ctx context.Context) error {
	pages := s.pages()
	if len(pages) == 0 {
		return nil
	}
	found, err := s.meta.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(s.options.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: LabelSet + "=" + LabelValue(s.options.Name) + "," + LabelKey})
	if err != nil {
		return serverError(err, "list the entries of the set")
	}
	byName := make(map[string]*metav1.PartialObjectMetadata, len(found.Items))
	for i := range found.Items {
		byName[found.Items[i].Name] = &found.Items[i]
	}
	for _, p := range pages {
		if object := byName[s.name(p.key)]; (object == nil || !p.is(object)) && p.lose() {
			s.mu.Lock()
			s.fallen = append(s.fallen, p.key)
			s.mu.Unlock()
		}
	}
	s.poke()
	return nil
}

func (s *Set) takeFallen() []run.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.fallen
	s.fallen = nil
	return keys
}

// Order implements executor.Shared. It writes the order to the entry, where the
// current or next holder of the key finds it.
func (s *Set) Order(ctx context.Context, key run.Key, o executor.Order) (bool, error) {
	notes := make(map[string]string)
	if o.Stop {
		notes[annotationStop] = "true"
	}
	if o.Token != nil {
		notes[annotationAdopt] = encodeToken(o.Token)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": notes}})
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, writeLimit, errSlow)
	defer cancel()
	_, err = s.configMaps().Patch(ctx, s.name(key), types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, unavailable(serverError(err, "write an order for %s", key))
	}
	return true, nil
}
