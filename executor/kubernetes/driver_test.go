package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestStart_image_that_does_not_exist(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.driver = b.newDriver(t, func(o *kubernetes.Options) { o.PendingTimeout = time.Hour }) // has no part in it
	def := b.definition(t, "true")
	def.Image, def.PullPolicy = "127.0.0.1:1/nothing:1", run.PullIfNotPresent
	log := new(setupLog)
	err := b.startRefused(t, def, log)
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	require.ErrorContains(t, err, "image pull failed: ")
	require.ErrorContains(t, err, "127.0.0.1:1/nothing:1")
	require.Contains(t, log.String(), "pod drover-")
}

func TestStart_unschedulable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.driver = b.newDriver(t, func(o *kubernetes.Options) { o.PendingTimeout = 2 * time.Second })
	def := b.definition(t, "true")
	def.Kubernetes = &run.KubernetesPool{NodeSelector: map[string]string{"drover.test/none": "such"}}
	log := new(setupLog)
	err := b.startRefused(t, def, log)
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	require.ErrorContains(t, err, "after 2s no node takes the pod: ")
	require.Contains(t, log.String(), "waiting: no node takes the pod: ")
}

// A waiting pod starts once there is a node; until then the setup log has the
// reason.
func TestStart_waits_for_a_node(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nodes, err := b.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	label := "drover.test/" + newID(t)
	def := b.definition(t, "echo done")
	def.Kubernetes = &run.KubernetesPool{NodeSelector: map[string]string{label: "yes"}}
	reported := make(chan struct{}, 1)
	type started struct {
		handle executor.Handle
		err    error
	}
	result := make(chan started, 1)
	go func() {
		h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1), Log: func(line string) {
			if strings.HasPrefix(line, "waiting: no node takes the pod") {
				select {
				case reported <- struct{}{}:
				default:
				}
			}
		}})
		result <- started{h, err}
	}()
	<-reported
	patchLabel := func(value string) {
		patch := []byte(`{"metadata":{"labels":{"` + label + `":` + value + `}}}`)
		_, err := b.client.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), nodes.Items[0].Name, "application/strategic-merge-patch+json", patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
	patchLabel(`"yes"`)
	t.Cleanup(func() { patchLabel("null") })
	got := <-result
	require.NoError(t, got.err)
	b.removeAfter(t, got.handle)
	require.Equal(t, "done\n", follow(t, got.handle, 1).output)
}

func (b *bench) limitPods(t testing.TB, hard corev1.ResourceList) {
	t.Helper()
	quotas := b.client.CoreV1().ResourceQuotas(b.namespace)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "limit"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	testenv.Await(t, func() (bool, string) {
		q, err := quotas.Get(t.Context(), "limit", metav1.GetOptions{})
		require.NoError(t, err)
		return len(q.Status.Hard) > 0, "the quota is not in force yet"
	})
}

func TestStart_quota(t *testing.T) {
	t.Parallel()
	t.Run("used up", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.driver = b.newDriver(t, func(o *kubernetes.Options) { o.PendingTimeout = time.Second })
		b.limitPods(t, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")})
		h := b.start(t, b.definition(t, "sleep 300"))
		log := new(setupLog)
		_, err := b.driver.Start(t.Context(), executor.Task{Definition: b.definition(t, "true"), Log: log.add, Launch: launchAt(1)})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.ErrorContains(t, err, "exceeded quota")
		require.Contains(t, log.String(), "waiting: no room in the namespace")

		b.driver = b.newDriver(t, nil)
		freed := make(chan struct{})
		go func() {
			defer close(freed)
			_ = h.Remove(t.Context())
		}()
		require.Equal(t, "room\n", follow(t, b.start(t, b.definition(t, "echo room")), 1).output)
		<-freed
	})
	t.Run("too small", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.limitPods(t, corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("32Mi")})
		def := b.definition(t, "true")
		def.Resources.Memory = "1Gi"
		err := b.startRefused(t, def, new(setupLog))
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.ErrorContains(t, err, "exceeded quota")
	})
	t.Run("requires limits", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.limitPods(t, corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("1Gi")})
		err := b.startRefused(t, b.definition(t, "true"), new(setupLog))
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.ErrorContains(t, err, "must specify limits.memory")

		def := b.definition(t, "echo fits")
		def.Resources.Memory = "64Mi"
		require.Equal(t, "fits\n", follow(t, b.start(t, def), 1).output)
	})
}

func TestStart_template_that_the_node_refuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "true")
	def.Kubernetes = &run.KubernetesPool{PodTemplate: json.RawMessage(`{"spec":{"containers":[{"name":"task","securityContext":{"runAsNonRoot":true}}]}}`)}
	err := b.startRefused(t, def, new(setupLog))
	require.ErrorContains(t, err, "could not be started")
	require.ErrorContains(t, err, "root")
}

func TestEvents_pod_deleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "trap 'echo asked; exit 3' TERM; echo begun; while true; do sleep 0.1; done")
	h := b.start(t, def)
	awaitOutput(t, h, "begun")
	b.deletePod(t, def.Key)
	s := follow(t, h, 1)
	require.NoError(t, s.err)
	require.Contains(t, s.output, "asked\n", "the step got SIGTERM") // its shell may also print that sleep was terminated
	require.Equal(t, run.StatusFailed, s.result.Status)
	require.Equal(t, run.CauseVanished, s.result.Cause)
	require.Contains(t, s.result.Reason, "the pod was deleted from outside of Drover")
	testenv.Await(t, func() (bool, string) {
		_, err := b.driver.Attach(t.Context(), def.Key)
		return run.CodeOf(err) == run.CodeNotFound, "the pod is still there"
	})
	require.Equal(t, run.CodeNotFound, run.CodeOf(follow(t, h, 1).err))
}

func TestEvents_evicted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "echo begun; sleep 300")
	h := b.start(t, def)
	awaitOutput(t, h, "begun")
	require.NoError(t, b.client.PolicyV1().Evictions(b.namespace).Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: kubernetes.Name(kubernetes.DefaultPrefix, def.Key), Namespace: b.namespace},
	}))
	s := follow(t, h, 1)
	require.NoError(t, s.err)
	require.Equal(t, run.CauseVanished, s.result.Cause)
	require.Contains(t, s.result.Reason, "evicted")
}

// A pod that is lost before the task began is created again.
func TestStart_pod_is_deleted_meanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "echo done")
	log := new(setupLog)
	deleted := false
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1), Log: func(line string) {
		log.add(line)
		if !deleted && strings.Contains(line, "created pod ") {
			deleted = true
			b.deletePod(t, def.Key)
		}
	}})
	require.NoError(t, err)
	b.removeAfter(t, h)
	require.Equal(t, "done\n", follow(t, h, 1).output)
	require.Contains(t, log.String(), "creating another one")
}

func TestEvents_container_runs_out_of_memory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// The step uses the whole limit of the container, so the kernel may kill
	// either the step or the shim.
	def := b.definition(t, "echo begun; exec tail -c 1000000000 /dev/zero > /dev/null")
	def.Resources.Memory = "48Mi"
	s := follow(t, b.start(t, def), 1)
	if s.err != nil { // the container was killed as a whole
		require.Equal(t, run.CauseOOM, executor.CauseOf(s.err))
		require.ErrorContains(t, s.err, "48Mi")
		return
	}
	require.Equal(t, run.CauseOOM, s.result.Cause)
}

func TestStart_services(t *testing.T) {
	t.Parallel()
	t.Run("dies", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		def := b.definition(t, "true")
		def.Services = []run.ServiceSpec{{Name: "db", Image: b.cluster.Image, Command: []string{"/bin/sh", "-c", "echo no disk >&2; exit 4"}}}
		log := new(setupLog)
		err := b.startRefused(t, def, log)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.ErrorContains(t, err, "service db")
		require.ErrorContains(t, err, "exit code 4")
		require.ErrorContains(t, err, "no disk")
		require.Contains(t, log.String(), "service db: no disk")
	})
	t.Run("has a name", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		def := b.definition(t, "wget -q -O - http://db:7773/")
		def.Services = []run.ServiceSpec{{
			Name: "db", Image: b.cluster.Image,
			Command: []string{"/bin/sh", "-c", "mkdir /www; echo hello > /www/index.html; exec httpd -f -p 7773 -h /www"},
		}}
		s := follow(t, b.start(t, def), 1)
		require.Equal(t, "hello\n", s.output, s.result.Reason)
	})
}

func TestStart_credentials(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "echo done")
	password := newID(t)
	def.Auth = map[string]run.Auth{"registry.invalid": {Username: "u", Password: password}}
	h := b.start(t, def)
	pod := b.pod(t, def.Key)
	require.Empty(t, pod.Spec.SchedulingGates)
	secret, err := b.client.CoreV1().Secrets(b.namespace).Get(t.Context(), pod.Spec.ImagePullSecrets[0].Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, pod.UID, secret.OwnerReferences[0].UID, "the cluster deletes it with the pod, even without the executor")
	require.Contains(t, string(secret.Data[corev1.DockerConfigJsonKey]), password)
	require.Equal(t, "done\n", follow(t, h, 1).output)
	require.NoError(t, h.Remove(t.Context()))
	require.Empty(t, b.left(t))
}

func TestDefinition_is_in_no_object(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	secret := newID(t)
	def := b.definition(t, "echo $TOKEN; echo begun; sleep 300")
	def.Environment, def.Secrets = map[string]string{"TOKEN": secret}, []string{secret}
	h := b.start(t, def)
	awaitOutput(t, h, "begun")
	text, err := json.Marshal(b.pod(t, def.Key))
	require.NoError(t, err)
	require.NotContains(t, string(text), secret)
	log, err := b.client.CoreV1().Pods(b.namespace).GetLogs(kubernetes.Name(kubernetes.DefaultPrefix, def.Key), &corev1.PodLogOptions{}).DoRaw(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, log)
	require.NotContains(t, string(log), secret)
}

func TestEnvironment_of_the_image(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, `echo "$PATH"; test ! -e /var/run/secrets/kubernetes.io && echo no token; echo "$EXTRA"`)
	def.Kubernetes = &run.KubernetesPool{PodTemplate: json.RawMessage(`{"spec":{"containers":[{"name":"task","env":[{"name":"EXTRA","value":"from the pool"}]}]}}`)}
	s := follow(t, b.start(t, def), 1)
	require.Contains(t, s.output, "/bin")
	require.Contains(t, s.output, "no token\nfrom the pool\n")
}

func TestList_of_a_set(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	member := func(id, set string) *kubernetes.Driver {
		return b.newDriver(t, func(o *kubernetes.Options) { o.ExecutorID, o.Set = id, set })
	}
	one, two, other := member("one", "s"), member("two", "s"), member("one", "t")
	b.driver = one
	def := b.definition(t, "sleep 300")
	b.start(t, def)
	for d, want := range map[*kubernetes.Driver][]run.Key{one: {def.Key}, two: {def.Key}, other: nil} {
		keys, err := d.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, keys)
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner, err := b.client.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "owner-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	b.driver = b.newDriver(t, func(o *kubernetes.Options) {
		o.Owner = func(run.Key) *metav1.OwnerReference {
			return &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
		}
	})
	def := b.definition(t, "sleep 300")
	def.Auth = map[string]run.Auth{"registry.invalid": {Username: "u", Password: newID(t)}}
	b.start(t, def)
	require.NoError(t, b.client.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), owner.Name, metav1.DeleteOptions{}))
	b.requireNothingLeft(t)
}

// The documented rights are enough for everything that a driver does.
func TestRights_are_enough(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	role := kubernetes.DocumentedRole(t)
	role.Namespace = b.namespace
	rbac := b.client.RbacV1()
	_, err := rbac.Roles(b.namespace).Create(t.Context(), &role, metav1.CreateOptions{})
	require.NoError(t, err)
	user := "executor-" + newID(t)
	_, err = rbac.RoleBindings(b.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "executor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := *b.config
	config.Impersonate.UserName, config.Impersonate.Groups = user, []string{"system:authenticated"}
	b.driver = b.newDriver(t, func(o *kubernetes.Options) { o.Config = &config })
	testenv.Await(t, func() (bool, string) {
		err := b.driver.Check(t.Context())
		return err == nil, fmt.Sprint(err)
	})
	def := b.definition(t, "echo begun; sleep 300")
	def.Auth = map[string]run.Auth{"registry.invalid": {Username: "u", Password: newID(t)}}
	def.Services = []run.ServiceSpec{{Name: "db", Image: b.cluster.Image, Command: []string{"/bin/sh", "-c", "exec httpd -f -p 7774"}}}
	h := b.start(t, def)
	awaitOutput(t, h, "begun")
	keys, err := b.driver.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []run.Key{def.Key}, keys)
	require.NoError(t, h.Stop(t.Context(), time.Second))
	require.Equal(t, run.StatusStopped, follow(t, h, 1).result.Status)
	require.NoError(t, h.Remove(t.Context()))
	require.Empty(t, b.left(t))

	def = b.definition(t, "true")
	def.Services = []run.ServiceSpec{{Name: "db", Image: b.cluster.Image, Command: []string{"/bin/sh", "-c", "echo its log; exit 1"}}}
	err = b.startRefused(t, def, new(setupLog))
	require.ErrorContains(t, err, "its log")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.driver.Check(t.Context()))
	t.Run("without rights", func(t *testing.T) {
		t.Parallel()
		config := *b.config
		config.Impersonate.UserName = "unknown-user"
		d := b.newDriver(t, func(o *kubernetes.Options) { o.Config = &config })
		err := d.Check(t.Context())
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
		_, err = d.Start(t.Context(), executor.Task{Definition: b.definition(t, "true"), Launch: launchAt(1)})
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "the task is not at fault")
	})
	t.Run("without a server", func(t *testing.T) {
		t.Parallel()
		config := *b.config
		config.Host = "https://127.0.0.1:1"
		d := b.newDriver(t, func(o *kubernetes.Options) { o.Config = &config })
		require.Equal(t, run.CodeUnavailable, run.CodeOf(d.Check(t.Context())))
		_, err := d.List(t.Context())
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	})
}
