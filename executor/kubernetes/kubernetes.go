package kubernetes

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/kubernetes/kubeclient"
	"github.com/drover-run/drover/internal/keylock"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

// DefaultPrefix begins the names of the objects that the driver creates.
const DefaultPrefix = "drover"

// Options configures a Driver.
type Options struct {
	// Config is the client configuration for the API server, see Connect.
	// Required.
	Config *rest.Config
	// Namespace is the namespace of the pods. Required.
	Namespace string
	// ExecutorID is the id of the executor that the environments belong to.
	// List returns only environments of this id, unless Set is given. Required.
	ExecutorID string
	// Set is the executor set that this executor is a member of: List returns
	// the environments of all members. "" means none.
	Set string
	// CheckoutImage is an image with git, for checkout steps without an image. Without
	// it, tasks with such steps are refused.
	CheckoutImage string
	// HelperImage has the shim at /bin/drover-shim, as the Drover image has.
	// Required.
	HelperImage string
	// HelperPullPolicy is the pull policy of the helper image; "" means
	// IfNotPresent.
	HelperPullPolicy run.PullPolicy
	// AllowPrivileged allows tasks, and pod templates of pools, to use
	// privileged containers. Such a task can take over its node.
	AllowPrivileged bool
	// PendingTimeout is how long a pod may wait for a node, or for room in the
	// namespace's quota, before its task fails; 0 means no limit.
	PendingTimeout time.Duration
	// Owner returns the owner of all objects of a key, so that they are deleted
	// with it. A nil function or result means no owner.
	Owner func(run.Key) *metav1.OwnerReference
	// Prefix begins the names of all objects that the driver creates; "" means
	// DefaultPrefix.
	Prefix string
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
}

// Driver is an executor.Driver on a namespace of a Kubernetes cluster.
type Driver struct {
	options Options
	config  *rest.Config
	client  *kubeclient.Client
	log     *slog.Logger
	locks   keylock.Locks[run.Key]
	rights  rights

	keepalive time.Duration // keepaliveInterval, except in tests

	mu   sync.Mutex
	kept map[run.Key]*session // created by Start, until Events takes it
}

var _ executor.Driver = (*Driver)(nil)

// New returns a driver. It makes no network calls. The error has CodeInvalid if
// an option is missing or the configuration is unusable.
func New(options Options) (*Driver, error) {
	switch {
	case options.Config == nil:
		return nil, run.Errorf(run.CodeInvalid, "the kubernetes driver needs the configuration of a client")
	case options.Namespace == "":
		return nil, run.Errorf(run.CodeInvalid, "the kubernetes driver needs a namespace")
	case options.ExecutorID == "":
		return nil, run.Errorf(run.CodeInvalid, "the kubernetes driver needs the id of its executor")
	case options.HelperImage == "":
		return nil, run.Errorf(run.CodeInvalid, "the kubernetes driver needs a helper image")
	}
	config := TuneConfig(options.Config)
	client, err := kubeclient.New(config)
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "create a client of the cluster: %w", err)
	}
	if options.Prefix == "" {
		options.Prefix = DefaultPrefix
	}
	log := options.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Driver{
		options: options, config: config, client: client, log: log, keepalive: keepaliveInterval,
		kept: make(map[run.Key]*session),
	}, nil
}

// Close closes the connections to pods whose Events were never called.
// Environments keep running.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, s := range d.kept {
		s.close()
		delete(d.kept, key)
	}
	return nil
}

// Features implements executor.Driver.
func (d *Driver) Features() executor.Features {
	return executor.Features{
		Name: "kubernetes", Images: true, Services: true, Helpers: true, User: true, Tmpfs: true,
		Resources: true, Privileged: d.options.AllowPrivileged, Copy: true, Archives: true, Exec: true,
		SecretFiles: true, Checkouts: d.options.CheckoutImage != "", ExtraHosts: true,
	}
}

// List implements executor.Driver.
func (d *Driver) List(ctx context.Context) ([]run.Key, error) {
	ctx, cancel := d.call(ctx)
	defer cancel()
	found, err := d.pods().List(ctx, metav1.ListOptions{LabelSelector: d.selector()})
	if err != nil {
		return nil, ServerError(err, "list pods")
	}
	var keys []run.Key
	for i := range found.Items {
		if key, err := run.ParseKey(found.Items[i].Labels[LabelKey]); err == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// selector returns the label selector for the pods of this executor, or of its
// set.
func (d *Driver) selector() string {
	if d.options.Set != "" {
		return LabelSet + "=" + LabelValue(d.options.Set)
	}
	return LabelExecutor + "=" + LabelValue(d.options.ExecutorID)
}

// Attach implements executor.Driver.
func (d *Driver) Attach(ctx context.Context, key run.Key) (executor.Handle, error) {
	pod, err := d.get(ctx, key)
	if err != nil {
		return nil, err
	}
	return d.handleOf(key, pod), nil
}

func (d *Driver) handleOf(key run.Key, pod *corev1.Pod) *handle {
	return &handle{driver: d, key: key, pod: pod.Name, uid: pod.UID, nonce: pod.Annotations[annotationNonce]}
}

// get returns the pod of a key.
func (d *Driver) get(ctx context.Context, key run.Key) (*corev1.Pod, error) {
	ctx, cancel := d.call(ctx)
	defer cancel()
	pod, err := d.pods().Get(ctx, d.name(key), metav1.GetOptions{})
	if err != nil {
		return nil, ServerError(err, "find the pod of %s", key)
	}
	return pod, nil
}

func (d *Driver) pods() *kubeclient.Pods { return d.client.Pods(d.options.Namespace) }

func (d *Driver) name(key run.Key) string { return Name(d.options.Prefix, key) }

// call bounds one call to the server. If the call takes too long, its
// connection may be dead: the next call uses a new one.
func (d *Driver) call(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeoutCause(ctx, callTimeout, run.Errorf(run.CodeUnavailable, "the API server did not answer within %s", callTimeout))
	return limited, func() {
		if limited.Err() != nil && ctx.Err() == nil {
			d.client.DropConnections()
		}
		cancel()
	}
}

// storeSession stores a session until Events takes it.
func (d *Driver) storeSession(key run.Key, s *session) {
	d.mu.Lock()
	old := d.kept[key]
	d.kept[key] = s
	d.mu.Unlock()
	if old != nil {
		old.close()
	}
}

// take returns the session that Start created, or nil if there is none.
func (d *Driver) take(key run.Key) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.kept[key]
	delete(d.kept, key)
	return s
}

// pause waits for the given duration. The error has CodeCanceled or
// CodeTimeout.
func pause(ctx context.Context, span time.Duration) error {
	if err := retry.Sleep(ctx, span); err != nil {
		return ServerError(err, "wait")
	}
	return nil
}
