package kubeclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/drover-run/drover/executor/kubernetes/kubeclient"
)

// recorder is a server that records requests and has no objects.
type recorder struct {
	mu       sync.Mutex
	requests []string
}

// ServeHTTP implements http.Handler.
func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, fmt.Sprintf("%s %s accept %q type %q body %q", q.Method, q.URL, q.Header.Get("Accept"), q.Header.Get("Content-Type"), body))
	http.Error(w, "no such object", http.StatusNotFound)
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.requests
	r.requests = nil
	return all
}

// TestClient_as_clientset checks that the requests are those of client-go's
// clientset.
func TestClient_as_clientset(t *testing.T) {
	t.Parallel()
	server := &recorder{}
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	config := &rest.Config{Host: listener.URL, UserAgent: "test"}
	ours, err := kubeclient.New(config)
	require.NoError(t, err)
	theirs, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	list := metav1.ListOptions{LabelSelector: "a=b", FieldSelector: "metadata.name=x", Limit: 3, TimeoutSeconds: new(int64(7)), ResourceVersion: "5"}
	remove := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions("u")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "task"}}}}
	maps := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"k": "v"}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("h")}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
	}}
	patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	logs := &corev1.PodLogOptions{Container: "task", Follow: true, TailLines: new(int64(5))}
	exec := &corev1.PodExecOptions{Container: "task", Command: []string{"a", "b"}, Stdin: true, Stdout: true}

	for name, call := range map[string][2]func(context.Context) error{
		"get pod":      {last(ours.Pods("n").Get, "x", metav1.GetOptions{}), last(theirs.CoreV1().Pods("n").Get, "x", metav1.GetOptions{})},
		"list pods":    {first(ours.Pods("n").List, list), first(theirs.CoreV1().Pods("n").List, list)},
		"watch pods":   {first(ours.Pods("n").Watch, list), first(theirs.CoreV1().Pods("n").Watch, list)},
		"create pod":   {last(ours.Pods("n").Create, pod, metav1.CreateOptions{}), last(theirs.CoreV1().Pods("n").Create, pod, metav1.CreateOptions{})},
		"list events":  {first(ours.Events("n").List, list), first(theirs.CoreV1().Events("n").List, list)},
		"update map":   {last(ours.ConfigMaps("n").Update, maps, metav1.UpdateOptions{}), last(theirs.CoreV1().ConfigMaps("n").Update, maps, metav1.UpdateOptions{})},
		"create lease": {last(ours.Leases("n").Create, lease, metav1.CreateOptions{}), last(theirs.CoordinationV1().Leases("n").Create, lease, metav1.CreateOptions{})},
		"watch leases": {first(ours.Leases("n").Watch, list), first(theirs.CoordinationV1().Leases("n").Watch, list)},
		"secret":       {last(ours.Secrets("n").Create, secret, metav1.CreateOptions{}), last(theirs.CoreV1().Secrets("n").Create, secret, metav1.CreateOptions{})},
		"review": {
			last(ours.AccessReviews().Create, review, metav1.CreateOptions{}),
			last(theirs.AuthorizationV1().SelfSubjectAccessReviews().Create, review, metav1.CreateOptions{}),
		},
		"delete": {
			func(ctx context.Context) error { return ours.Pods("n").Delete(ctx, "x", remove) },
			func(ctx context.Context) error { return theirs.CoreV1().Pods("n").Delete(ctx, "x", remove) },
		},
		"patch": {
			func(ctx context.Context) error {
				_, err := ours.Pods("n").Patch(ctx, "x", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
				return err
			},
			func(ctx context.Context) error {
				_, err := theirs.CoreV1().Pods("n").Patch(ctx, "x", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
				return err
			},
		},
		"logs": {
			func(ctx context.Context) error { return ours.Pods("n").GetLogs("x", logs).Do(ctx).Error() },
			func(ctx context.Context) error { return theirs.CoreV1().Pods("n").GetLogs("x", logs).Do(ctx).Error() },
		},
		"exec": {
			func(ctx context.Context) error { return ours.Pods("n").Exec("x", exec).Do(ctx).Error() },
			func(ctx context.Context) error {
				return theirs.CoreV1().RESTClient().Post().Resource("pods").Namespace("n").Name("x").SubResource("exec").
					VersionedParams(exec, scheme.ParameterCodec).Do(ctx).Error()
			},
		},
	} {
		require.Error(t, call[0](t.Context()), name)
		got := server.take()
		require.Error(t, call[1](t.Context()), name)
		require.Equal(t, server.take(), got, name)
		require.NotEmpty(t, got, name)
	}
}

// first binds the argument of a call.
func first[A, R any](call func(context.Context, A) (R, error), a A) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx, a)
		return err
	}
}

// last binds the two arguments of a call.
func last[A, B, R any](call func(context.Context, A, B) (R, error), a A, b B) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx, a, b)
		return err
	}
}
