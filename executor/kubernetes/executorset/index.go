package executorset

import (
	"context"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-run/drover/executor/kubernetes"
)

// index is the state of a set as the API server reports it: its leases, and the
// metadata of its entries. It lags behind a little.
type index struct {
	namespace string
	entries   cache.SharedIndexInformer // of *metav1.PartialObjectMetadata
	leases    cache.SharedIndexInformer

	mu      sync.Mutex
	changed map[string]*metav1.PartialObjectMetadata // by name, changed since the last takeChanged: the current or the last state
}

// lister lists and watches the objects of one resource.
type lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// newInformer returns an informer of the objects with the given labels. example is
// an object of their type.
func newInformer[L runtime.Object](from lister[L], labels string, example runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = labels
			return from.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = labels
			return from.Watch(ctx, o)
		},
	}, from), example, 0, cache.Indexers{})
}

// newIndex returns an index whose informers are not running yet.
func (s *Set) newIndex() (*index, error) {
	i := &index{namespace: s.options.Namespace, changed: make(map[string]*metav1.PartialObjectMetadata)}
	members := kubernetes.LabelSet + "=" + kubernetes.LabelValue(s.options.Name)
	entries := s.meta.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(s.options.Namespace)
	i.entries = newInformer[*metav1.PartialObjectMetadataList](entries, members+","+kubernetes.LabelKey, &metav1.PartialObjectMetadata{})
	i.leases = newInformer[*coordinationv1.LeaseList](s.leases(), members, &coordinationv1.Lease{})
	for _, informer := range []cache.SharedIndexInformer{i.entries, i.leases} {
		if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
			s.log.DebugContext(ctx, "the watch of the set ended", "error", err)
		}); err != nil {
			return nil, err
		}
	}
	entry := func(object any) {
		i.markChanged(object)
		s.wake()
	}
	if _, err := i.entries.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: entry, UpdateFunc: func(_, object any) { entry(object) }, DeleteFunc: entry,
	}); err != nil {
		return nil, err
	}
	lease := func(object any) {
		if lease, ok := object.(*coordinationv1.Lease); ok {
			s.recordLease(lease)
		}
	}
	_, err := i.leases.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: lease, UpdateFunc: func(_, object any) { lease(object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if lease, ok := object.(*coordinationv1.Lease); ok && s.ofSet(lease) {
				s.membership.observeMissing(*lease.Spec.HolderIdentity)
				i.markAllChanged()
				s.wake()
			}
		},
	})
	return i, err
}

// run runs the informers until ctx ends. It returns when the index is
// complete.
func (i *index) run(ctx context.Context, group *sync.WaitGroup) bool {
	group.Go(func() { i.entries.RunWithContext(ctx) })
	group.Go(func() { i.leases.RunWithContext(ctx) })
	return cache.WaitForCacheSync(ctx.Done(), i.entries.HasSynced, i.leases.HasSynced)
}

// markChanged marks an entry as changed.
func (i *index) markChanged(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if entry, ok := object.(*metav1.PartialObjectMetadata); ok {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.changed[entry.Name] = entry
	}
}

// markAllChanged marks all entries as changed.
func (i *index) markAllChanged() {
	for _, entry := range i.all() {
		i.markChanged(entry)
	}
}

// takeChanged returns the entries that have changed since the last call.
func (i *index) takeChanged() []*metav1.PartialObjectMetadata {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []*metav1.PartialObjectMetadata
	for _, entry := range i.changed {
		all = append(all, entry)
	}
	clear(i.changed)
	return all
}

// all returns all entries.
func (i *index) all() []*metav1.PartialObjectMetadata {
	var all []*metav1.PartialObjectMetadata
	for _, object := range i.entries.GetStore().List() {
		if entry, ok := object.(*metav1.PartialObjectMetadata); ok {
			all = append(all, entry)
		}
	}
	return all
}

// entry returns the entry with the given name, or nil.
func (i *index) entry(name string) *metav1.PartialObjectMetadata {
	object, ok, err := i.entries.GetStore().GetByKey(i.namespace + "/" + name)
	if err != nil || !ok {
		return nil
	}
	entry, _ := object.(*metav1.PartialObjectMetadata)
	return entry
}

// members returns all leases.
func (i *index) members() []*coordinationv1.Lease {
	var all []*coordinationv1.Lease
	for _, object := range i.leases.GetStore().List() {
		if lease, ok := object.(*coordinationv1.Lease); ok {
			all = append(all, lease)
		}
	}
	return all
}
