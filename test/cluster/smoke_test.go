package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/remotecommand"
	watchtools "k8s.io/client-go/tools/watch"
)

// testImage is the busybox image of the root module's tests.
const testImage = "drover.test/busybox:test"

func TestPod(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	always := corev1.ContainerRestartPolicyAlways
	pod := c.create(t, corev1.PodSpec{
		InitContainers: []corev1.Container{{
			Name: "sidecar", Image: testImage, RestartPolicy: &always,
			Command: []string{"/bin/sh", "-c", "mkdir /www; echo from the sidecar > /www/index.html; exec httpd -f -p 8081 -h /www"},
		}},
		Containers: []corev1.Container{{
			Name: "main", Image: testImage,
			Command: []string{"/bin/sh", "-c", `until wget -q -O - http://127.0.0.1:8081/; do usleep 50000; done
until [ -e /tmp/go ]; do usleep 50000; done
while [ -e "/proc/$(cat /tmp/go)" ]; do usleep 50000; done
exit 7`},
		}},
	})
	c.await(t, pod, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	logs, err := c.client.CoreV1().Pods(c.namespace).GetLogs(pod, &corev1.PodLogOptions{Container: "main", Follow: true}).Stream(t.Context())
	require.NoError(t, err)
	defer logs.Close()
	line := make([]byte, len("from the sidecar\n"))
	_, err = io.ReadFull(logs, line)
	require.NoError(t, err)
	require.Equal(t, "from the sidecar\n", string(line))

	// The container waits for the end of the command, which would be killed with it.
	require.Equal(t, "written\n", c.exec(t, pod, "main", "echo $$ > /tmp/pid; mv /tmp/pid /tmp/go; echo written"))
	ended := c.await(t, pod, "ended", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	require.EqualValues(t, 7, ended.Status.ContainerStatuses[0].State.Terminated.ExitCode)
}

func TestPod_absent_image(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	begun := time.Now()
	pod := c.create(t, corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "drover.test/there-is-none:1"}}})
	c.await(t, pod, "refused", func(p *corev1.Pod) bool {
		statuses := p.Status.ContainerStatuses
		return len(statuses) == 1 && statuses[0].State.Waiting != nil && strings.Contains(statuses[0].State.Waiting.Reason, "Image")
	})
	t.Logf("reported after %s", time.Since(begun))
}

// A pod reaches the API server at the address in its environment, and a server
// on this host, as an executor in the cluster must reach its gateway.
func TestPod_reaches(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	server := &httptest.Server{Listener: listenForPods(t, c.config.Host), Config: &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "from the host") }),
	}}
	server.Start()
	t.Cleanup(server.Close)
	pod := c.create(t, corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: testImage,
		Command: []string{"/bin/sh", "-ec", "nc -w 10 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT < /dev/null; wget -q -O - " + server.URL},
	}}})
	c.await(t, pod, "succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	logs, err := c.client.CoreV1().Pods(c.namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(t.Context())
	require.NoError(t, err)
	require.Equal(t, "from the host\n", string(logs))
}

// listenForPods listens on this host's address on the link to the cluster.
func listenForPods(t *testing.T, apiServer string) net.Listener {
	t.Helper()
	conn, err := net.Dial("udp", strings.TrimPrefix(apiServer, "https://"))
	require.NoError(t, err)
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	require.NoError(t, err)
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	return listener
}

// testNamespace is the namespace of a test.
type testNamespace struct {
	config    *rest.Config
	client    *kubernetes.Clientset
	namespace string
}

func requireCluster(t *testing.T) *testNamespace {
	t.Helper()
	kubeconfig := os.Getenv(kubeconfigVariable)
	if kubeconfig == "" {
		missing(t, kubeconfigVariable+" is not set")
	}
	config, err := clientConfig(kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	created, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "smoke-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	c := &testNamespace{config: config, client: client, namespace: created.Name}
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(context.Background(), c.namespace, metav1.DeleteOptions{})
	})
	// Pods are refused until the namespace has its service account.
	ctx := limited(t)
	accounts := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "serviceaccounts", c.namespace, fields.Everything())
	_, err = watchtools.UntilWithSync(ctx, accounts, &corev1.ServiceAccount{}, nil, func(watch.Event) (bool, error) { return true, nil })
	require.NoError(t, err)
	return c
}

// limited returns a context that ends shortly before the deadline of the test, which can
// then say what it waits for.
func limited(t *testing.T) context.Context {
	t.Helper()
	deadline, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), deadline.Add(-15*time.Second)) //nolint:forbidigo // the only limit
	t.Cleanup(cancel)
	return ctx
}

func missing(t *testing.T, reason string) {
	t.Helper()
	for service := range strings.SplitSeq(os.Getenv("DROVER_REQUIRE"), ",") {
		if service == "kubernetes" {
			t.Fatal("a cluster is required but " + reason)
		}
	}
	t.Skip(reason + ": run make test-k8s")
}

func (c *testNamespace) create(t *testing.T, spec corev1.PodSpec) string {
	t.Helper()
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.TerminationGracePeriodSeconds = new(int64(0))
	created, err := c.client.CoreV1().Pods(c.namespace).Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"}, Spec: spec}, metav1.CreateOptions{})
	require.NoError(t, err)
	return created.Name
}

// await watches the pod until the condition holds. It lists and watches again
// when the API server ends a watch, as a busy one does when its cache lags.
func (c *testNamespace) await(t *testing.T, pod, state string, condition func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx := limited(t)
	pods := cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "pods", c.namespace, fields.OneTermEqualSelector("metadata.name", pod))
	var last *corev1.Pod
	_, err := watchtools.UntilWithSync(ctx, pods, &corev1.Pod{}, nil, func(event watch.Event) (bool, error) {
		last, _ = event.Object.(*corev1.Pod)
		return last != nil && condition(last), nil
	})
	require.NoError(t, err, "pod is not %s: %+v", state, last)
	return last
}

func (c *testNamespace) exec(t *testing.T, pod, container, script string) string {
	t.Helper()
	request := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: []string{"/bin/sh", "-c", script}, Stdout: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, request.URL().String())
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}))
	return out.String()
}
