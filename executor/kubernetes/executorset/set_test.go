package executorset_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/executor/kubernetes/executorset"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// shortLease keeps tests short.
const shortLease = 4 * time.Second

// setTestEnv holds a client and a namespace for a test of sets.
type setTestEnv struct {
	config    *rest.Config
	client    *clientset.Clientset
	namespace string
	lease     time.Duration
}

func newSetTestEnv(t *testing.T) *setTestEnv {
	t.Helper()
	cluster := testenv.RequireKubernetes(t)
	config, _, err := kubernetes.Connect(kubernetes.Location{Kubeconfig: cluster.Kubeconfig})
	require.NoError(t, err)
	config.QPS = -1
	client, err := clientset.NewForConfig(config)
	require.NoError(t, err)
	b := &setTestEnv{config: config, client: client, namespace: "drover-test-" + strings.ToLower(ulid.Make().String()), lease: shortLease}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, client.CoreV1().Namespaces().Delete(ctx, b.namespace, metav1.DeleteOptions{}))
	})
	return b
}

// member is a process of a set. It records the calls of the set, and its
// connection to the API server can be cut.
type member struct {
	*executorset.Set
	end  context.CancelFunc
	done chan struct{}
	sent sync.WaitGroup // late requests
	cut  atomic.Bool
	late atomic.Bool // its create requests reach the server, and their answers are lost

	mu       sync.Mutex
	notReady bool
	lines    map[run.Key]executor.Lines
	content  map[run.Key]string
	lost     map[run.Key]bool
	stops    map[run.Key]int
	adopts   map[run.Key]string
	refusing bool // the member does not accept orders
}

var errCut = errors.New("the connection is cut")

type cuttable struct {
	m    *member
	next http.RoundTripper
}

func (c cuttable) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.m.cut.Load() {
		return nil, errCut
	}
	if r.Method == http.MethodPost && c.m.late.Load() {
		c.m.sent.Go(func() {
			response, err := c.next.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
			if err == nil {
				_ = response.Body.Close()
			}
		})
		return nil, errCut
	}
	response, err := c.next.RoundTrip(r)
	if err == nil && c.m.cut.Load() && !strings.Contains(r.URL.RawQuery, "watch=") {
		_ = response.Body.Close()
		return nil, errCut
	}
	return response, err
}

func (m *member) Accepting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.notReady
}

func (m *member) Adopt(_ context.Context, p executor.JournalEntry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.notReady {
		return errors.New("not ready")
	}
	m.lines[p.Key], m.content[p.Key] = p.Lines, string(p.Content)
	delete(m.lost, p.Key)
	return nil
}

func (m *member) Release(key run.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[key] = true
}

func (m *member) Deliver(_ context.Context, key run.Key, o executor.KeyRequest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refusing {
		return false
	}
	if o.Stop {
		m.stops[key]++
	}
	if o.Token != nil {
		m.adopts[key] = string(o.Token)
		defer o.Ack()
	}
	return true
}

func (m *member) has(key run.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lines[key] != nil
}

func (m *member) of(key run.Key) (executor.Lines, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lines[key], m.content[key]
}

// join starts a member, and waits until it is valid.
func (b *setTestEnv) join(t *testing.T, name string) *member {
	t.Helper()
	m := &member{
		done: make(chan struct{}), lines: map[run.Key]executor.Lines{}, content: map[run.Key]string{},
		lost: map[run.Key]bool{}, stops: map[run.Key]int{}, adopts: map[run.Key]string{},
	}
	config := rest.CopyConfig(b.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return cuttable{m: m, next: next} })
	var err error
	m.Set, err = executorset.OpenSet(t.Context(), executorset.SetOptions{
		Config: config, Namespace: b.namespace, Name: "blue", Member: name, Lease: b.lease,
	})
	require.NoError(t, err)
	require.Error(t, m.Valid(), "not a member yet")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	m.end = cancel
	go func() {
		defer close(m.done)
		m.Run(ctx, m)
	}()
	t.Cleanup(m.leave)
	testenv.Await(t, func() (bool, string) {
		err := m.Valid()
		return err == nil, fmt.Sprint(err)
	})
	return m
}

// leave ends the member like SIGTERM.
func (m *member) leave() {
	m.end()
	<-m.done
	m.sent.Wait()
}

// kill ends the member like SIGKILL.
func (m *member) kill() {
	m.cut.Store(true)
	m.leave()
}

func setKey(t *testing.T) run.Key {
	t.Helper()
	return run.Key{Run: run.ID(strings.ToLower(ulid.Make().String())), Task: 1, Attempt: 1, Dispatch: 1}
}

func (m *member) create(t *testing.T, key run.Key, line string) executor.Lines {
	t.Helper()
	lines, err := m.Create(key, []byte(line))
	require.NoError(t, err)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines[key] = lines
	return lines
}

func (b *setTestEnv) configMap(t *testing.T, key run.Key) *corev1.ConfigMap {
	t.Helper()
	object, err := b.client.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), kubernetes.Name(kubernetes.DefaultPrefix, key), metav1.GetOptions{})
	require.NoError(t, err)
	return object
}

func awaitHolder(t *testing.T, key run.Key, members ...*member) *member {
	t.Helper()
	var holder *member
	testenv.Await(t, func() (bool, string) {
		for _, m := range members {
			if m.has(key) {
				holder = m
			}
		}
		return holder != nil, "no member adopted the key"
	})
	return holder
}

func TestSet_keeps_an_entry(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	m := b.join(t, "one")
	key := setKey(t)
	require.False(t, m.Has(key))
	require.Nil(t, m.Owner(key))
	lines := m.create(t, key, "1")
	require.True(t, m.Has(key))
	_, err := m.Create(key, []byte("again"))
	require.Equal(t, run.CodeConflict, run.CodeOf(err))

	require.NoError(t, lines.Append([]byte("2"), executor.Lazy))
	require.Equal(t, "1\n", b.configMap(t, key).Data["journal"], "a lazy line waits for the next write")
	require.NoError(t, lines.Append([]byte("3"), executor.Kept))
	object := b.configMap(t, key)
	require.Equal(t, "1\n2\n3\n", object.Data["journal"])
	require.Equal(t, object.UID, m.Owner(key).UID)
	require.False(t, lines.NeedsRewrite())
	require.NoError(t, lines.Append([]byte(strings.Repeat("x", 70<<10)), executor.Kept))
	require.True(t, lines.NeedsRewrite())
	require.NoError(t, lines.Rewrite([]byte("all")))
	require.NoError(t, lines.Append([]byte("4"), executor.Synced))
	require.Equal(t, "all\n4\n", b.configMap(t, key).Data["journal"])
	require.Equal(t, run.CodeTooLarge, run.CodeOf(lines.Append(make([]byte, 1<<20), executor.Kept)))

	// Changes of the object by other clients do not change its holder.
	object = b.configMap(t, key)
	object.Labels["owner"] = "admin"
	_, err = b.client.CoreV1().ConfigMaps(b.namespace).Update(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, lines.Append([]byte("5"), executor.Kept))
	require.Equal(t, "admin", b.configMap(t, key).Labels["owner"])
	require.NoError(t, lines.Remove())
	require.Error(t, lines.Append([]byte("6"), executor.Kept))
	testenv.Await(t, func() (bool, string) { return !m.Has(key), "the key still exists" })
}

// TestSet_hands_over_when_leaving ends a member: the other members adopt all
// its keys, with the lines that were not written yet.
func TestSet_hands_over_when_leaving(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	b.lease = time.Hour // the others do not wait for its end
	one, two := b.join(t, "one"), b.join(t, "two")
	require.Equal(t, one.ID(), two.ID(), "one journal")
	key := setKey(t)
	lines := one.create(t, key, "1")
	require.NoError(t, lines.Append([]byte("2"), executor.Lazy))
	require.NoError(t, lines.Close())
	require.NoError(t, one.Close())
	one.leave()
	awaitHolder(t, key, two)
	taken, content := two.of(key)
	require.Equal(t, "1\n2\n", content)
	require.NoError(t, taken.Append([]byte("3"), executor.Kept))
	require.Equal(t, "two", b.configMap(t, key).Annotations["drover.run/holder"])
}

// TestSet_adopts_from_a_killed_member kills a member that has keys: one other
// member adopts each key, soon after the lease has expired.
func TestSet_adopts_from_a_killed_member(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	one, two, three := b.join(t, "one"), b.join(t, "two"), b.join(t, "three")
	var keys []run.Key
	for range 20 {
		key := setKey(t)
		one.create(t, key, "1")
		keys = append(keys, key)
	}
	one.kill()
	begun := time.Now()
	share := map[*member]int{}
	for _, key := range keys {
		share[awaitHolder(t, key, two, three)]++
	}
	took := time.Since(begun)
	// The first member that notices may adopt all keys; which one is random.
	t.Logf("all keys were adopted after %s, by %d members", took, len(share))
	require.Greater(t, took, shortLease/2)
	for _, key := range keys {
		require.False(t, two.has(key) && three.has(key), "both members hold %s", key)
	}
}

// TestSet_cut_off cuts a member off for longer than its lease. It writes
// nothing, and learns after the reconnect which keys it has lost.
func TestSet_cut_off(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	one, two := b.join(t, "one"), b.join(t, "two")
	key := setKey(t)
	lines := one.create(t, key, "1")
	one.cut.Store(true)
	awaitHolder(t, key, two)
	require.Error(t, one.Valid(), "the member knows that it may have lost the key")
	require.Equal(t, run.CodeUnavailable, run.CodeOf(lines.Append([]byte("late"), executor.Kept)))
	one.cut.Store(false)
	testenv.Await(t, func() (bool, string) {
		one.mu.Lock()
		defer one.mu.Unlock()
		return one.lost[key], "the member does not know that it has lost the key"
	})
	require.ErrorIs(t, lines.Append([]byte("later"), executor.Kept), executor.ErrLost)
	require.ErrorIs(t, lines.Remove(), executor.ErrLost)
	require.Equal(t, "1\n", b.configMap(t, key).Data["journal"])
	testenv.Await(t, func() (bool, string) { return one.Valid() == nil, "not a member again" })
	one.create(t, setKey(t), "1")
}

// TestSet_keeps_keys_that_no_member_adopted cuts off the only member: keys that no other
// member adopted stay with their holder.
func TestSet_keeps_keys_that_no_member_adopted(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	one := b.join(t, "one")
	key := setKey(t)
	lines := one.create(t, key, "1")
	one.cut.Store(true)
	testenv.Await(t, func() (bool, string) { return one.Valid() != nil, "still a valid member" })
	one.cut.Store(false)
	testenv.Await(t, func() (bool, string) { return one.Valid() == nil, "not a valid member yet" })
	require.NoError(t, lines.Append([]byte("2"), executor.Kept))
	require.Equal(t, "1\n2\n", b.configMap(t, key).Data["journal"])
	one.mu.Lock()
	defer one.mu.Unlock()
	require.Empty(t, one.lost)
}

// TestSet_delivers_orders writes orders for another member's key.
func TestSet_delivers_orders(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	b.lease = time.Hour // orders do not wait for its renewal
	one, two := b.join(t, "one"), b.join(t, "two")
	key := setKey(t)
	found, err := two.Request(t.Context(), key, executor.KeyRequest{Stop: true})
	require.NoError(t, err)
	require.False(t, found)

	lines := one.create(t, key, "1")
	found, err = two.Request(t.Context(), key, executor.KeyRequest{Stop: true})
	require.NoError(t, err)
	require.True(t, found)
	testenv.Await(t, func() (bool, string) {
		one.mu.Lock()
		defer one.mu.Unlock()
		return one.stops[key] > 0, "not stopped"
	})

	found, err = two.Request(t.Context(), key, executor.KeyRequest{Token: []byte{0, 255, 7}})
	require.NoError(t, err)
	require.True(t, found)
	testenv.Await(t, func() (bool, string) {
		one.mu.Lock()
		defer one.mu.Unlock()
		return one.adopts[key] == "\x00\xff\x07", "not adopted"
	})
	require.NoError(t, lines.Append([]byte("2"), executor.Kept))
	annotations := b.configMap(t, key).Annotations
	require.NotContains(t, annotations, "drover.run/adopt", "the order was carried out")
	require.Contains(t, annotations, "drover.run/stop", "the next holder of the key needs it")

	// An order that was not delivered stays for the next holder of the key.
	one.mu.Lock()
	one.refusing = true
	one.mu.Unlock()
	found, err = two.Request(t.Context(), key, executor.KeyRequest{Token: []byte("other")})
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, lines.Close())
	one.leave()
	testenv.Await(t, func() (bool, string) {
		two.mu.Lock()
		defer two.mu.Unlock()
		return two.adopts[key] == "other" && two.stops[key] > 0, "not adopted"
	})
}

// TestSet_waits_until_it_is_ready checks that a member does not adopt keys that
// its executor does not accept yet.
func TestSet_waits_until_it_is_ready(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	one, two := b.join(t, "one"), b.join(t, "two")
	two.mu.Lock()
	two.notReady = true
	two.mu.Unlock()
	key := setKey(t)
	one.create(t, key, "1")
	one.leave()
	three := b.join(t, "three")
	awaitHolder(t, key, three)
	require.False(t, two.has(key))
	two.mu.Lock()
	two.notReady = false
	two.mu.Unlock()
	three.leave()
	awaitHolder(t, key, two)
}

// TestSet_deleted_entry deletes an entry from outside: the member is notified,
// and the cluster deletes the objects that the entry owned.
func TestSet_deleted_entry(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	one := b.join(t, "one")
	key := setKey(t)
	lines := one.create(t, key, "1")
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{*one.Owner(key)}}}
	_, err := b.client.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), owned, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, b.client.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), b.configMap(t, key).Name, metav1.DeleteOptions{}))
	testenv.Await(t, func() (bool, string) {
		one.mu.Lock()
		defer one.mu.Unlock()
		return one.lost[key], "the member was not notified"
	})
	require.ErrorIs(t, lines.Append([]byte("2"), executor.Kept), executor.ErrLost)
	testenv.Await(t, func() (bool, string) {
		_, err := b.client.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "owned", metav1.GetOptions{})
		return err != nil, "the owned object still exists"
	})
}

// TestSet_finds_late_entries creates an entry by a request whose answer is lost:
// the member is notified that it has the key.
func TestSet_finds_late_entries(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	one := b.join(t, "one")
	key := setKey(t)
	one.late.Store(true)
	_, err := one.Create(key, []byte("1"))
	require.Contains(t, []run.Code{run.CodeUnavailable, run.CodeInternal}, run.CodeOf(err), "the entry may exist")
	one.late.Store(false)
	testenv.Await(t, func() (bool, string) { return one.has(key), "the member does not know the entry" })
	lines, content := one.of(key)
	require.Equal(t, "1\n", content)
	_, err = one.Create(key, []byte("again"))
	require.Equal(t, run.CodeConflict, run.CodeOf(err))
	require.NoError(t, lines.Remove())
}

// TestSet_quota_exceeded distinguishes an entry that the server refused from one that may
// still appear.
func TestSet_quota_exceeded(t *testing.T) {
	t.Parallel()
	b := newSetTestEnv(t)
	one := b.join(t, "one")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}},
	}
	_, err := b.client.CoreV1().ResourceQuotas(b.namespace).Create(t.Context(), quota, metav1.CreateOptions{})
	require.NoError(t, err)
	testenv.Await(t, func() (bool, string) {
		q, err := b.client.CoreV1().ResourceQuotas(b.namespace).Get(t.Context(), "none", metav1.GetOptions{})
		require.NoError(t, err)
		return len(q.Status.Hard) > 0, "the quota is not in force yet"
	})
	_, err = one.Create(setKey(t), []byte("1"))
	require.Equal(t, run.CodeExhausted, run.CodeOf(err))
}
