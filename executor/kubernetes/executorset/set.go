// Package executorset shares one journal between the members of an executor set
// in a Kubernetes cluster: an object for each task and a lease for each member.
package executorset

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/executor/kubernetes/kubeclient"
	"github.com/drover-run/drover/run"
)

// DefaultLease is how long a member's lease holds. The other members adopt the
// keys of a killed member a little later, well within the 30 seconds after
// which its tasks would be out of contact.
const DefaultLease = 12 * time.Second

// Intervals and timeouts of a set.
const (
	// writeTimeout bounds one write to the API server.
	writeTimeout = 5 * time.Second
	// lazyLimit is how long a lazy line may stay unwritten.
	lazyLimit = 10 * time.Second
	// scanInterval is the interval at which a member checks for work that no event
	// reports.
	scanInterval = time.Second
	// rankDelay is how long a member waits for each member of a lower rank.
	rankDelay = time.Second
	// leaseRetention is how long after its end the lease of a member is removed.
	leaseRetention = time.Minute
)

// SetOptions configures the membership of a process in an executor set.
type SetOptions struct {
	// Config is the client configuration for the API server, see Connect.
	// Required.
	Config *rest.Config
	// Namespace is the namespace of the set's ConfigMaps and leases. Required.
	Namespace string
	// Name of the set. Required.
	Name string
	// Member is the id of this member's executor. It must be unique for each
	// process, see executor.FreshID. Required.
	Member string
	// Lease is how long the member's lease holds; 0 means DefaultLease.
	Lease time.Duration
	// Prefix begins the names of all created objects; "" means DefaultPrefix.
	Prefix string
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
}

// Set is the membership of a process in an executor set. The journal of the set
// is stored in ConfigMaps, one for each key, and each member has a lease. It is
// safe for concurrent use.
type Set struct {
	options    SetOptions
	client     *kubeclient.Client
	meta       metadata.Interface
	log        *slog.Logger
	journalID  string
	membership *membership
	now        func() time.Time

	work   chan func(context.Context) // calls to the API server that Run executes
	wakeup chan struct{}              // capacity 1; makes Run scan at once
	closed chan struct{}              // closed when Run takes no more work

	mu         sync.Mutex
	index      *index // nil before Run
	renewedAt  time.Time
	entries    map[run.Key]*entry
	busy       map[run.Key]bool // being created or adopted
	unreported []run.Key        // lost, and the executor is not notified yet
}

var _ executor.Shared = (*Set)(nil)

// OpenSet returns the membership, which begins with Run. It creates the marker
// ConfigMap of the set if it does not exist. Errors: CodeInvalid if an option
// is missing, else those of the API server.
func OpenSet(ctx context.Context, o SetOptions) (*Set, error) {
	if o.Config == nil || o.Namespace == "" || o.Name == "" || o.Member == "" {
		return nil, run.Errorf(run.CodeInvalid, "an executor set needs a cluster, a namespace, a name and the id of this member")
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Prefix == "" {
		o.Prefix = kubernetes.DefaultPrefix
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	config := kubernetes.TuneConfig(o.Config)
	client, err := kubeclient.New(config)
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "create a client of the cluster: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "create a client of the cluster: %w", err)
	}
	s := &Set{
		options: o, client: client, meta: meta, now: time.Now,
		log:        log.With("set", o.Name, "member", o.Member),
		membership: newMembership(time.Now),
		work:       make(chan func(context.Context)),
		wakeup:     make(chan struct{}, 1),
		closed:     make(chan struct{}),
		entries:    make(map[run.Key]*entry),
		busy:       make(map[run.Key]bool),
	}
	s.journalID, err = s.ensureMarker(ctx)
	return s, err
}

// journalIDField is the field of the set's marker ConfigMap.
const journalIDField = "journal_id"

// ensureMarker returns the id of the set's journal, and creates the marker ConfigMap if
// there is none.
func (s *Set) ensureMarker(ctx context.Context) (string, error) {
	maps := s.client.ConfigMaps(s.options.Namespace)
	name := dnsName(s.options.Prefix+"-set", s.options.Name)
	for {
		found, err := maps.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil && found.Data[journalIDField] != "":
			return found.Data[journalIDField], nil
		case err == nil:
			return "", run.Errorf(run.CodeInvalid, "the ConfigMap %s has no %s: it is not the marker of a set", name, journalIDField)
		case !apierrors.IsNotFound(err):
			return "", kubernetes.ServerError(err, "read the marker of set %s", s.options.Name)
		}
		immutable := true
		_, err = maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationSet: s.options.Name}},
			Data:       map[string]string{journalIDField: strings.ToLower(rand.Text())},
			Immutable:  &immutable,
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return "", kubernetes.ServerError(err, "create the marker of set %s", s.options.Name)
		}
	}
}

// ID implements executor.Journal.
func (s *Set) ID() string { return s.journalID }

// Set implements executor.Shared.
func (s *Set) Set() string { return s.options.Name }

// Load implements executor.Journal. A new member has no keys yet.
func (s *Set) Load() ([]executor.JournalEntry, error) { return nil, nil }

// Check implements executor.Journal.
func (s *Set) Check() error { return s.Valid() }

// Close implements executor.Journal. Entries are closed one by one, and the end
// of Run releases the lease.
func (s *Set) Close() error { return nil }

// Valid implements executor.Shared. The lease counts from before the request
// that renewed it, and ends earlier for this member than for the others.
func (s *Set) Valid() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index == nil {
		return run.Errorf(run.CodeUnavailable, "the executor is not a member of set %s yet", s.options.Name)
	}
	if since := elapsed(s.renewedAt, s.now()); since > s.options.Lease*3/4 {
		return run.Errorf(run.CodeUnavailable, "the executor could not renew its lease in set %s for %s", s.options.Name, since.Round(time.Second))
	}
	return nil
}

// Owner returns the owner of the pod of a key, so that the pod is deleted with
// the key. It returns nil for a key that this member does not hold. It is for
// Options.Owner.
func (s *Set) Owner(key run.Key) *metav1.OwnerReference {
	s.mu.Lock()
	e := s.entries[key]
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: s.name(key), UID: e.uid}
}

// Has implements executor.Shared.
func (s *Set) Has(key run.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key] != nil || s.busy[key] || s.index != nil && s.index.entry(s.name(key)) != nil
}

// Run implements executor.Shared.
func (s *Set) Run(ctx context.Context, k executor.KeyHandler) {
	defer close(s.closed)
	// Calls that other goroutines still make end after ctx, and before the
	// lease.
	calls, endCalls := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endCalls(errLeft)
	member, stop := context.WithCancelCause(ctx)
	defer stop(errLeft)
	var group, pending sync.WaitGroup
	w := s.begin(member, k, &group)
	ticker := time.NewTicker(scanInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case f := <-s.work:
			pending.Go(func() {
				limited, cancel := context.WithTimeoutCause(calls, writeTimeout, errSlow)
				defer cancel()
				f(limited)
			})
		case <-ticker.C:
			w.reconcileAll(member)
		case <-s.wakeup:
			w.reconcileChanged(member)
		case <-ctx.Done():
		}
	}
	pending.Wait()
	stop(errLeft)
	group.Wait()
	s.releaseLease(calls)
}

// begin starts to renew the lease and to watch the set. The process counts as a
// member once it has seen the whole set.
func (s *Set) begin(ctx context.Context, k executor.KeyHandler, group *sync.WaitGroup) *watcher {
	w := &watcher{Set: s, handler: k, group: group}
	var err error
	if w.index, err = s.newIndex(); err != nil {
		s.log.ErrorContext(ctx, "failed to watch the set", "error", err) // happens only because of a program error
		return w
	}
	group.Go(func() {
		if !w.index.run(ctx, group) {
			return
		}
		s.mu.Lock()
		s.index = w.index
		s.mu.Unlock()
		s.renewLoop(ctx)
	})
	return w
}

var (
	errLeft = run.Errorf(run.CodeUnavailable, "the executor has left its set")
	errSlow = run.Errorf(run.CodeUnavailable, "the API server did not answer within %s", writeTimeout)
)

// do executes f in Run, which calls the API server, and waits for the result.
func (s *Set) do(f func(ctx context.Context) error) error {
	if err := s.Valid(); err != nil {
		return err
	}
	done := make(chan error, 1)
	select {
	case s.work <- func(ctx context.Context) { done <- f(ctx) }:
		return <-done
	case <-s.closed:
		return errLeft
	}
}

// wake makes Run scan at once.
func (s *Set) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// heldEntries returns the entries that this member holds.
func (s *Set) heldEntries() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.entries))
}

func (s *Set) name(key run.Key) string { return kubernetes.Name(s.options.Prefix, key) }
