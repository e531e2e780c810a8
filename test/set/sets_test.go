package set

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// executorSet is an executor set in a namespace of its own. Its members are processes of
// this host.
type executorSet struct {
	t         *testing.T
	parts     *harness.Parts
	cluster   testenv.Kubernetes
	client    *clientset.Clientset
	namespace string
	slots     string
	members   []*harness.Process

	mu        sync.Mutex
	watched   map[types.UID]bool // pods whose logs are read
	podsByKey map[run.Key]int    // number of pods in which steps ran
}

// newExecutorSet starts a Drover and the members of a set. It adds more to their
// environment.
func newExecutorSet(t *testing.T, members int, slots string, more ...string) *executorSet {
	t.Helper()
	testenv.RequireKubernetes(t)
	h := openExecutorSet(t, harness.StartPartsWithout(t, slots), slots)
	for range members {
		h.members = append(h.members, h.addMember(more...))
	}
	for _, m := range h.members {
		m.AwaitReady()
	}
	h.parts.AwaitExecutor("online")
	return h
}

// openExecutorSet returns a set without members.
func openExecutorSet(t *testing.T, parts *harness.Parts, slots string) *executorSet {
	t.Helper()
	cluster := testenv.RequireKubernetes(t)
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1 // no limit: follow reads every pod
	client, err := clientset.NewForConfig(config)
	require.NoError(t, err)
	h := &executorSet{
		t: t, parts: parts, cluster: cluster, client: client, slots: slots, watched: map[types.UID]bool{}, podsByKey: map[run.Key]int{},
		namespace: "drover-test-" + strings.ToLower(rand.Text()[:10]),
	}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), h.namespace, metav1.DeleteOptions{}))
	})
	testenv.Await(t, func() (bool, string) {
		_, err := client.CoreV1().ServiceAccounts(h.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, "the namespace has no service account"
	})
	h.count()
	return h
}

// addMember starts a member and adds more to its environment.
func (h *executorSet) addMember(more ...string) *harness.Process {
	h.t.Helper()
	return h.parts.AddMember("blue", h.slots, append([]string{
		"DROVER_EXECUTOR__KUBERNETES__KUBECONFIG=" + h.cluster.Kubeconfig,
		"DROVER_EXECUTOR__KUBERNETES__NAMESPACE=" + h.namespace,
		"DROVER_EXECUTOR__KUBERNETES__HELPER_IMAGE=" + h.cluster.DroverImage,
		"DROVER_EXECUTOR__KUBERNETES__HELPER_PULL_POLICY=never",
	}, more...)...)
}

// newMember starts a member that reaches Temporal, the gateway and the cluster
// through proxies of its own.
func (h *executorSet) newMember(name string) *harness.Member {
	h.t.Helper()
	proxies, env := harness.NewProxies(h.t, h.parts)
	config, err := clientcmd.LoadFromFile(h.cluster.Kubeconfig)
	require.NoError(h.t, err)
	server := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	at, err := url.Parse(server.Server)
	require.NoError(h.t, err)
	port := at.Port()
	if port == "" {
		port = "443"
	}
	proxy := harness.NewTCPProxy(h.t, net.JoinHostPort(at.Hostname(), port))
	server.Server, server.TLSServerName = "https://"+proxy.Address, cmp.Or(server.TLSServerName, at.Hostname())
	kubeconfig := filepath.Join(h.t.TempDir(), "kubeconfig")
	require.NoError(h.t, clientcmd.WriteToFile(*config, kubeconfig))
	env = append(env, "DROVER_EXECUTOR__KUBERNETES__KUBECONFIG="+kubeconfig)
	m := &harness.Member{Name: name, Proxies: append(proxies, proxy), Launch: func() *harness.Process { return h.addMember(env...) }}
	m.Process = m.Launch()
	m.Process.AwaitReady()
	return m
}

// host returns the address of this host that pods can reach: the local address
// of its connections to the cluster.
func (h *executorSet) host() string {
	h.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", h.cluster.Kubeconfig)
	require.NoError(h.t, err)
	server, _, err := rest.DefaultServerUrlFor(config)
	require.NoError(h.t, err)
	conn, err := (&net.Dialer{}).DialContext(h.t.Context(), "udp", net.JoinHostPort(server.Hostname(), "443")) // sends no packet
	require.NoError(h.t, err)
	defer func() { _ = conn.Close() }()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	require.NoError(h.t, err)
	require.False(h.t, net.ParseIP(host).IsLoopback(), "pods cannot reach this host: its connection to the cluster at %s is over loopback", server)
	return host
}

// count counts the pods in which steps run: those whose shim writes frames. A
// member that was frozen may create a pod for a key that another member holds by
// now; no step begins in such a pod.
func (h *executorSet) count() {
	h.t.Helper()
	pods := informers.NewSharedInformerFactoryWithOptions(h.client, 0, informers.WithNamespace(h.namespace)).Core().V1().Pods().Informer()
	var followers sync.WaitGroup
	note := func(object any) {
		pod, ok := object.(*corev1.Pod)
		if !ok || !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == taskContainer && c.State.Waiting == nil
		}) {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.watched[pod.UID] {
			h.watched[pod.UID] = true
			followers.Go(func() { h.follow(pod) })
		}
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, object any) { note(object) }})
	require.NoError(h.t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pods.RunWithContext(h.t.Context())
	}()
	h.t.Cleanup(func() {
		<-done
		followers.Wait()
	})
	require.True(h.t, cache.WaitForCacheSync(h.t.Context().Done(), pods.HasSynced))
}

// taskContainer is the container in which the shim runs the steps and copies its
// frames to the log.
const taskContainer = "task"

// follow waits until the shim of a pod writes a frame, and counts the pod. It
// returns without that if the pod ends.
func (h *executorSet) follow(pod *corev1.Pod) {
	for {
		now, err := h.client.CoreV1().Pods(h.namespace).Get(h.t.Context(), pod.Name, metav1.GetOptions{})
		if h.hasFrame(pod) {
			break
		}
		if apierrors.IsNotFound(err) || h.t.Context().Err() != nil || err == nil && (now.UID != pod.UID || now.Status.Phase != corev1.PodRunning) {
			return
		}
	}
	key, err := run.ParseKey(pod.Labels[kubernetes.LabelKey])
	if err != nil {
		h.t.Errorf("the key of pod %s: %v", pod.Name, err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.podsByKey[key]++
}

// hasFrame reads the first line of a pod's log and reports whether it is a frame.
// A node that has removed the log returns an error message in its place.
func (h *executorSet) hasFrame(pod *corev1.Pod) bool {
	log, err := h.client.CoreV1().Pods(h.namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: taskContainer, Follow: true}).Stream(h.t.Context())
	if err != nil {
		return false
	}
	defer func() { _ = log.Close() }()
	line, err := bufio.NewReader(log).ReadBytes('\n')
	_, frame, _ := bytes.Cut(line, []byte(" "))
	if err == nil && !json.Valid(frame) {
		h.t.Logf("pod %s wrote %q", pod.Name, line)
	}
	return err == nil && json.Valid(frame)
}

// spec returns a run with tasks that print a line each second.
func (h *executorSet) spec(tasks, seconds int) string {
	numbers := make([]string, tasks)
	for i := range numbers {
		numbers[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	return fmt.Sprintf(`
name: executor-set
group: /test/executor-set
tasks:
  work:
    pool: blue
    image: %s
    pull_policy: never
    matrix: {N: [%s]}
    steps:
      - run: 'echo begin $N; i=0; while [ $i -lt %d ]; do sleep 1; echo line $i; i=$((i+1)); done; echo end $N'
  join:
    pool: blue
    image: %s
    pull_policy: never
    depends: [work]
    steps: [{run: echo joined}]
`, h.cluster.Image, strings.Join(numbers, ", "), seconds, h.cluster.Image)
}

// check fails the test unless all tasks ran once and their logs are complete.
func (h *executorSet) check(r api.Run, tasks, seconds int) {
	h.t.Helper()
	require.Equal(h.t, api.Result("success"), r.Result, harness.Describe(r))
	for n := range tasks {
		name := fmt.Sprintf("work[N=%d]", n)
		require.Equal(h.t, 1, r.Tasks[name].Attempt)
		var whole strings.Builder
		fmt.Fprintf(&whole, "begin %d\n", n)
		for i := range seconds {
			fmt.Fprintf(&whole, "line %d\n", i)
		}
		fmt.Fprintf(&whole, "end %d\n", n)
		require.Equal(h.t, whole.String(), h.parts.Logs(r.ID, name))
	}
	h.requireOnce()
}

// requireOnce checks that the steps of no task ran twice.
func (h *executorSet) requireOnce() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	require.NotEmpty(h.t, h.podsByKey)
	ran := map[string]bool{}
	for key, n := range h.podsByKey {
		require.Equal(h.t, 1, n, "pods of %s in which steps ran", key)
		task := fmt.Sprint(key.Run, ".", key.Task)
		require.False(h.t, ran[task], "another dispatch of %s ran too", key)
		ran[task] = true
	}
}

// requireClean waits until no resource of a task or of a killed member is left.
func (h *executorSet) requireClean() { h.t.Helper(); h.requireCleanBut(len(h.members)) }

// requireCleanBut does the same for a set with the given number of members.
func (h *executorSet) requireCleanBut(members int) {
	h.t.Helper()
	testenv.Await(h.t, func() (bool, string) {
		var left []string
		pods, err := h.client.CoreV1().Pods(h.namespace).List(h.t.Context(), metav1.ListOptions{})
		require.NoError(h.t, err)
		for i := range pods.Items {
			left = append(left, "pod "+pods.Items[i].Name)
		}
		entries, err := h.client.CoreV1().ConfigMaps(h.namespace).List(h.t.Context(), metav1.ListOptions{LabelSelector: "drover.run/key"})
		require.NoError(h.t, err)
		for i := range entries.Items {
			left = append(left, "entry "+entries.Items[i].Name)
		}
		secrets, err := h.client.CoreV1().Secrets(h.namespace).List(h.t.Context(), metav1.ListOptions{})
		require.NoError(h.t, err)
		for i := range secrets.Items {
			left = append(left, "secret "+secrets.Items[i].Name)
		}
		leases, err := h.client.CoordinationV1().Leases(h.namespace).List(h.t.Context(), metav1.ListOptions{})
		require.NoError(h.t, err)
		if n := len(leases.Items) - members; n > 0 {
			left = append(left, fmt.Sprintf("%d leases too many", n))
		}
		return len(left) == 0, strings.Join(left, ", ")
	})
}

// TestSet_members_killed_in_turn kills the members of a set in turn while they
// run tasks, and replaces each by a new member.
func TestSet_members_killed_in_turn(t *testing.T) {
	t.Parallel()
	tasks, seconds, rounds := 16, 12, 3
	if harness.Soak() {
		tasks, rounds = 120, 20
	}
	h := newExecutorSet(t, 3, "4")
	id := h.parts.Submit(h.spec(tasks, seconds)).ID
	h.parts.Await(id, func(r api.Run) bool { return harness.Running(r) > 6 })
	for n := range rounds {
		m := n % len(h.members)
		h.members[m].Kill()
		h.members[m] = h.addMember()
		h.members[m].AwaitReady()
		until := time.Now().Add(6 * time.Second)
		r := h.parts.Await(id, func(r api.Run) bool {
			require.Zero(t, harness.OutOfContact(r), "another member adopts the task before the heartbeat timeout: %s", harness.Describe(r))
			return time.Now().After(until) || r.Phase == "finished"
		})
		if r.Phase == "finished" {
			break
		}
	}
	r := h.parts.AwaitPhase(id, "finished")
	h.check(r, tasks, seconds)
	h.requireClean()
}

// TestSet_rollout replaces all members in turn, as the rollout of a Deployment
// does.
func TestSet_rollout(t *testing.T) {
	t.Parallel()
	const tasks, seconds = 8, 20
	h := newExecutorSet(t, 2, "4")
	id := h.parts.Submit(h.spec(tasks, seconds)).ID
	h.parts.Await(id, func(r api.Run) bool { return harness.Running(r) == tasks })
	for m := range h.members {
		fresh := h.addMember()
		fresh.AwaitReady()
		require.NoError(t, h.members[m].Stop())
		h.members[m] = fresh
	}
	r := h.parts.AwaitPhase(id, "finished")
	h.check(r, tasks, seconds)
	h.requireClean()
}

// TestSet_stop stops a run whose tasks are spread over a set. It usually takes
// about a second.
func TestSet_stop(t *testing.T) {
	t.Parallel()
	h := newExecutorSet(t, 2, "3")
	id := h.parts.Submit(h.spec(6, 600)).ID
	h.parts.Await(id, func(r api.Run) bool { return harness.Running(r) == 6 })
	begun := time.Now()
	h.parts.Post(id + "/stop")
	r := h.parts.AwaitPhase(id, "finished")
	t.Logf("stopped after %s", time.Since(begun))
	require.Equal(t, api.Result("stopped"), r.Result)
	h.requireClean()
}
