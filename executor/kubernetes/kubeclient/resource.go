package kubeclient

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// object is a pointer to an object of the cluster.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// list is a pointer to a list of objects.
type list[L any] interface {
	*L
	runtime.Object
}

// Resource is the client of a resource, in one namespace if it has namespaces. Its
// calls are those of client-go, with the same requests.
type Resource[T any, O object[T]] struct {
	group      *rest.RESTClient
	name       string
	namespace  string // "" if the resource has no namespaces
	parameters runtime.ParameterCodec
}

// on addresses a request to the resource.
func (r *Resource[T, O]) on(request *rest.Request) *rest.Request {
	return request.UseProtobufAsDefault().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name)
}

// Get returns an object.
func (r *Resource[T, O]) Get(ctx context.Context, name string, options metav1.GetOptions) (O, error) {
	result := O(new(T))
	err := r.on(r.group.Get()).Name(name).VersionedParams(&options, r.parameters).Do(ctx).Into(result)
	return result, err
}

// Watch returns the changes of the objects.
func (r *Resource[T, O]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return r.on(r.group.Get()).VersionedParams(&options, r.parameters).Timeout(timeout(options)).Watch(ctx)
}

// Create creates an object, and returns what the server made of it.
func (r *Resource[T, O]) Create(ctx context.Context, o O, options metav1.CreateOptions) (O, error) {
	result := O(new(T))
	err := r.on(r.group.Post()).VersionedParams(&options, r.parameters).Body(o).Do(ctx).Into(result)
	return result, err
}

// Update replaces an object, and returns what the server made of it.
func (r *Resource[T, O]) Update(ctx context.Context, o O, options metav1.UpdateOptions) (O, error) {
	result := O(new(T))
	err := r.on(r.group.Put()).Name(o.GetName()).VersionedParams(&options, r.parameters).Body(o).Do(ctx).Into(result)
	return result, err
}

// Patch changes an object, and returns the changed one.
func (r *Resource[T, O]) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions) (O, error) {
	result := O(new(T))
	err := r.on(r.group.Patch(kind)).Name(name).VersionedParams(&options, r.parameters).Body(data).Do(ctx).Into(result)
	return result, err
}

// Delete deletes an object.
func (r *Resource[T, O]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return r.on(r.group.Delete()).Name(name).Body(&options).Do(ctx).Error()
}

// ListedResource is the client of a resource whose objects can be listed.
type ListedResource[T any, O object[T], L any, P list[L]] struct{ Resource[T, O] }

// List returns the objects.
func (r *ListedResource[T, O, L, P]) List(ctx context.Context, options metav1.ListOptions) (P, error) {
	result := P(new(L))
	err := r.on(r.group.Get()).VersionedParams(&options, r.parameters).Timeout(timeout(options)).Do(ctx).Into(result)
	return result, err
}

func timeout(options metav1.ListOptions) time.Duration {
	if options.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*options.TimeoutSeconds) * time.Second
}
