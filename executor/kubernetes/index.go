package kubernetes

import (
	"context"
	"log/slog"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/informers/coordination/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// index is the state of a set as the API server reports it: its leases, and the
// metadata of its entries. It lags behind a little.
type index struct {
	namespace string
	pages     cache.SharedIndexInformer // of *metav1.PartialObjectMetadata
	leases    cache.SharedIndexInformer

	mu      sync.Mutex
	changed map[string]*metav1.PartialObjectMetadata // by name, changed since the last takeChanged: the current or the last state
}

// newIndex returns an index whose informers are not running yet.
func (s *Set) newIndex() (*index, error) {
	i := &index{namespace: s.options.Namespace, changed: make(map[string]*metav1.PartialObjectMetadata)}
	members := LabelSet + "=" + LabelValue(s.options.Name)
	i.pages = metadatainformer.NewFilteredMetadataInformer(s.meta, corev1.SchemeGroupVersion.WithResource("configmaps"),
		s.options.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = members + "," + LabelKey }).Informer()
	i.leases = coordination.NewFilteredLeaseInformer(s.client, s.options.Namespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = members })
	for _, informer := range []cache.SharedIndexInformer{i.pages, i.leases} {
		if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			s.log.Debug("the watch of the set ended", slog.Any("error", err))
		}); err != nil {
			return nil, err
		}
	}
	page := func(object any) {
		i.note(object)
		s.poke()
	}
	if _, err := i.pages.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: page, UpdateFunc: func(_, object any) { page(object) }, DeleteFunc: page,
	}); err != nil {
		return nil, err
	}
	lease := func(object any) {
		if lease, ok := object.(*coordinationv1.Lease); ok {
			s.sawLease(lease)
		}
	}
	_, err := i.leases.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: lease, UpdateFunc: func(_, object any) { lease(object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if lease, ok := object.(*coordinationv1.Lease); ok && s.ofSet(lease) {
				s.roster.missed(*lease.Spec.HolderIdentity)
				i.noteAll()
				s.poke()
			}
		},
	})
	return i, err
}

// keep runs the informers until ctx ends. It returns when the index is
// complete.
func (i *index) keep(ctx context.Context, group *sync.WaitGroup) bool {
	group.Go(func() { i.pages.RunWithContext(ctx) })
	group.Go(func() { i.leases.RunWithContext(ctx) })
	return cache.WaitForCacheSync(ctx.Done(), i.pages.HasSynced, i.leases.HasSynced)
}

// note marks an entry as changed.
func (i *index) note(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if page, ok := object.(*metav1.PartialObjectMetadata); ok {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.changed[page.Name] = page
	}
}

// noteAll marks all entries as changed.
func (i *index) noteAll() {
	for _, page := range i.all() {
		i.note(page)
	}
}

// take returns the entries that have changed since the last call.
func (i *index) take() []*metav1.PartialObjectMetadata {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []*metav1.PartialObjectMetadata
	for _, page := range i.changed {
		all = append(all, page)
	}
	clear(i.changed)
	return all
}

// all returns all entries.
func (i *index) all() []*metav1.PartialObjectMetadata {
	var all []*metav1.PartialObjectMetadata
	for _, object := range i.pages.GetStore().List() {
		if page, ok := object.(*metav1.PartialObjectMetadata); ok {
			all = append(all, page)
		}
	}
	return all
}

// page returns the entry with the given name, or nil.
func (i *index) page(name string) *metav1.PartialObjectMetadata {
	object, ok, err := i.pages.GetStore().GetByKey(i.namespace + "/" + name)
	if err != nil || !ok {
		return nil
	}
	page, _ := object.(*metav1.PartialObjectMetadata)
	return page
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
