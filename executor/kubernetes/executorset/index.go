package executorset

import (
	"context"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/informers/coordination/v1"
	"k8s.io/client-go/metadata/metadatainformer"
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

// newIndex returns an index whose informers are not running yet.
func (s *Set) newIndex() (*index, error) {
	i := &index{namespace: s.options.Namespace, changed: make(map[string]*metav1.PartialObjectMetadata)}
	members := kubernetes.LabelSet + "=" + kubernetes.LabelValue(s.options.Name)
	i.entries = metadatainformer.NewFilteredMetadataInformer(s.meta, corev1.SchemeGroupVersion.WithResource("configmaps"),
		s.options.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = members + "," + kubernetes.LabelKey }).Informer()
	i.leases = coordination.NewFilteredLeaseInformer(s.client, s.options.Namespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = members })
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
