package kubernetes_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/executortest"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestMain(m *testing.M) {
	executortest.Child(openConformance)
	testenv.Parallel(4)           // the tests mostly wait for the cluster
	klog.SetLogger(klog.Logger{}) // discards: client-go logs an error for each canceled call
	// client-go keeps idle connections, and pings a broken one until the ping
	// fails. A call into a pod that ends while its streams are being opened
	// leaves their readers waiting, which the driver cannot prevent.
	const remote = "k8s.io/client-go/tools/remotecommand."
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
		goleak.IgnoreAnyFunction(remote+"(*heartbeat).start"),
		goleak.IgnoreAnyFunction(remote+"(*stream).Read"),
		goleak.IgnoreAnyFunction(remote+"(*wsStreamExecutor).StreamWithContext.func1"))
}

// bench holds the client, the driver and the namespace of a test.
type bench struct {
	cluster   testenv.Kubernetes
	config    *rest.Config
	client    *clientset.Clientset
	namespace string
	id        string // of the executor
	driver    *kubernetes.Driver
}

func newBench(t testing.TB) *bench {
	t.Helper()
	cluster := testenv.RequireKubernetes(t)
	config, _, err := kubernetes.Connect(kubernetes.Location{Kubeconfig: cluster.Kubeconfig})
	require.NoError(t, err)
	config.QPS = -1
	client, err := clientset.NewForConfig(config)
	require.NoError(t, err)
	b := &bench{cluster: cluster, config: config, client: client, id: "test-" + newID(t), namespace: "drover-test-" + newID(t)}
	b.makeNamespace(t)
	b.driver = b.newDriver(t, nil)
	return b
}

func (b *bench) makeNamespace(t testing.TB) {
	t.Helper()
	_, err := b.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, b.client.CoreV1().Namespaces().Delete(ctx, b.namespace, metav1.DeleteOptions{}))
	})
	// The cluster refuses pods until the service account exists.
	testenv.Await(t, func() (bool, string) {
		_, err := b.client.CoreV1().ServiceAccounts(b.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, "no default service account"
	})
}

// newDriver returns a driver that acts like another process of the same
// executor.
func (b *bench) newDriver(t testing.TB, change func(*kubernetes.Options)) *kubernetes.Driver {
	t.Helper()
	options := kubernetes.Options{
		Config: b.config, Namespace: b.namespace, ExecutorID: b.id,
		HelperImage: b.cluster.DroverImage, HelperPullPolicy: run.PullNever,
	}
	if change != nil {
		change(&options)
	}
	d, err := kubernetes.New(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func (b *bench) definition(t testing.TB, scripts ...string) run.Definition {
	t.Helper()
	def := run.Definition{
		Key: run.Key{Run: run.ID(newID(t)), Task: 1, Attempt: 1, Dispatch: 1}, RunName: "test", RunGroup: "/test/kubernetes",
		RunCounter: 1, Task: "task", Image: b.cluster.Image, PullPolicy: run.PullNever, Shell: run.DefaultShell(), Grace: 2 * time.Second,
	}
	for _, s := range scripts {
		def.Steps = append(def.Steps, run.StepDef{Script: s, When: run.WhenOnSuccess})
	}
	return def
}

// start starts a task whose environment is removed at the end of the test.
func (b *bench) start(t testing.TB, def run.Definition) executor.Handle {
	t.Helper()
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.NoError(t, err)
	b.removeAfter(t, h)
	return h
}

func (b *bench) removeAfter(t testing.TB, h executor.Handle) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testenv.Patience(t))
		defer cancel()
		err := h.Remove(ctx)
		for run.CodeOf(err) == run.CodeUnavailable && ctx.Err() == nil { // a test may have broken the connections
			err = h.Remove(ctx)
		}
		require.NoError(t, err)
	})
}

// startRefused starts a task that cannot be started, and returns the error.
func (b *bench) startRefused(t testing.TB, def run.Definition, log *setupLog) error {
	t.Helper()
	_, err := b.driver.Start(t.Context(), executor.Task{
		Definition: def, Log: log.add,
		Launch: func() (int64, error) { t.Error("the task was launched"); return 1, nil },
	})
	require.Error(t, err)
	b.requireNothingLeft(t)
	return err
}

// pod returns the pod of a key.
func (b *bench) pod(t testing.TB, key run.Key) *corev1.Pod {
	t.Helper()
	pod, err := b.client.CoreV1().Pods(b.namespace).Get(t.Context(), kubernetes.Name(kubernetes.DefaultPrefix, key), metav1.GetOptions{})
	require.NoError(t, err)
	return pod
}

func (b *bench) deletePod(t testing.TB, key run.Key) {
	t.Helper()
	err := b.client.CoreV1().Pods(b.namespace).Delete(t.Context(), kubernetes.Name(kubernetes.DefaultPrefix, key), metav1.DeleteOptions{})
	require.NoError(t, err)
}

// vanish kills the shim of a key with SIGKILL, from its node: no process in the
// container can.
func (b *bench) vanish(t testing.TB, key run.Key) {
	t.Helper()
	pod := b.pod(t, key)
	command := pod.Spec.Containers[0].Command
	nonce := command[len(command)-1]
	// The brackets keep this script from finding itself.
	b.killOn(t, pod.Spec.NodeName, `grep -q '[`+nonce[:1]+`]`+nonce[1:]+`' $p/cmdline`)
}

// vanishHelper kills the shim of the first helper container of a key in the same way.
func (b *bench) vanishHelper(t testing.TB, key run.Key) {
	t.Helper()
	pod := b.pod(t, key)
	b.killOn(t, pod.Spec.NodeName, `tr '\0' '\n' < $p/environ | grep -qx HOSTNAME=`+pod.Name+` && grep -q '[h]elper-0' $p/cmdline`)
}

// killOn kills the processes of a node for which the condition holds; p is the directory
// of the process.
func (b *bench) killOn(t testing.TB, node, condition string) {
	t.Helper()
	script := `for p in /proc/[0-9]*; do { ` + condition + `; } 2>/dev/null && kill -9 ${p#/proc/}; done; true`
	yes := true
	pods := b.client.CoreV1().Pods(b.namespace)
	killer, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "killer-"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, HostPID: true, NodeName: node,
			Containers: []corev1.Container{{
				Name: "killer", Image: b.cluster.Image, ImagePullPolicy: corev1.PullNever, Command: []string{"/bin/sh", "-c", script},
				SecurityContext: &corev1.SecurityContext{Privileged: &yes},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	testenv.Await(t, func() (bool, string) {
		killer, err = pods.Get(t.Context(), killer.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return killer.Status.Phase == corev1.PodSucceeded, "the killer is " + string(killer.Status.Phase)
	})
	require.NoError(t, pods.Delete(t.Context(), killer.Name, metav1.DeleteOptions{}))
}

// left lists the objects of all executors in the namespace.
func (b *bench) left(t testing.TB) []string {
	t.Helper()
	return b.leftOf(t, kubernetes.LabelKey)
}

// leftOf lists the objects with a label in the namespace.
func (b *bench) leftOf(t testing.TB, selector string) []string {
	t.Helper()
	ours := metav1.ListOptions{LabelSelector: selector}
	ctx := context.WithoutCancel(t.Context())
	var left []string
	pods, err := b.client.CoreV1().Pods(b.namespace).List(ctx, ours)
	require.NoError(t, err)
	for _, p := range pods.Items {
		left = append(left, "pod "+p.Name)
	}
	secrets, err := b.client.CoreV1().Secrets(b.namespace).List(ctx, ours)
	require.NoError(t, err)
	for _, s := range secrets.Items {
		left = append(left, "secret "+s.Name)
	}
	return left
}

func (b *bench) requireNothingLeft(t testing.TB) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		left := b.left(t)
		return len(left) == 0, strings.Join(left, ", ")
	})
}

// taskFrames is the content of the frames of a task.
type taskFrames struct {
	output string // of all steps
	result *run.TaskResult
	err    error
}

// follow follows a task to its end and returns its frames.
func follow(t testing.TB, h executor.Handle, from int64) taskFrames {
	t.Helper()
	var s taskFrames
	next := from
	for f, err := range h.Events(t.Context(), from) {
		if err != nil {
			s.err = err
			return s
		}
		require.Equal(t, next, f.N, "frames have no gaps")
		next++
		if f.Kind == run.FrameOutput {
			s.output += string(f.Data)
		}
		s.result = f.Result
	}
	require.NotNil(t, s.result, "the last frame has the result")
	return s
}

// awaitOutput follows a task until it has printed a text.
func awaitOutput(t testing.TB, h executor.Handle, text string) {
	t.Helper()
	output := ""
	for f, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
		if output += string(f.Data); strings.Contains(output, text) {
			return
		}
	}
	require.Fail(t, "the text was never printed", output)
}

// setupLog collects the lines of a setup log.
type setupLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *setupLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *setupLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func launchAt(first int64) func() (int64, error) {
	return func() (int64, error) { return first, nil }
}

func newID(t testing.TB) string {
	t.Helper()
	id, err := ulid.New(ulid.Now(), rand.Reader)
	require.NoError(t, err)
	return strings.ToLower(id.String())
}
