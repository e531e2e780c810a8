package executorset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/executor/kubernetes/kubeclient"
	"github.com/drover-run/drover/run"
)

// renewLoop renews the member's lease until ctx ends.
func (s *Set) renewLoop(ctx context.Context) {
	each := s.options.Lease / 4
	ticker := time.NewTicker(each)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := s.renewLease(ctx, each); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "failed to renew the lease", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// renewLease renews the lease once. After the lease had expired, it first checks
// which keys the member has lost since.
func (s *Set) renewLease(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	begun := s.now()
	lapsed := s.Valid() != nil
	if err := s.putLease(ctx); err != nil {
		return err
	}
	if lapsed {
		if err := s.verify(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewedAt = begun
	return nil
}

// putLease creates the lease, or updates its renewal time.
func (s *Set) putLease(ctx context.Context) error {
	leases, name := s.leases(), s.leaseName(s.options.Member)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, s.newLease(name), metav1.CreateOptions{})
		if err != nil {
			return kubernetes.ServerError(err, "create lease %s", name)
		}
		return nil
	}
	if err != nil {
		return kubernetes.ServerError(err, "read lease %s", name)
	}
	fresh := s.newLease(name)
	lease.Labels, lease.Annotations, lease.Spec = fresh.Labels, fresh.Annotations, fresh.Spec
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return kubernetes.ServerError(err, "renew lease %s", name)
	}
	return nil
}

func (s *Set) newLease(name string) *coordinationv1.Lease {
	seconds := int32(max(1, s.options.Lease/time.Second))
	now := metav1.NewMicroTime(s.now())
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{kubernetes.LabelSet: kubernetes.LabelValue(s.options.Name)},
			Annotations: map[string]string{annotationSet: s.options.Name},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &s.options.Member, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}

// releaseLease deletes the lease, so that the other members adopt its keys at once.
func (s *Set) releaseLease(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, writeTimeout, errSlow)
	defer cancel()
	err := s.leases().Delete(ctx, s.leaseName(s.options.Member), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.log.WarnContext(ctx, "failed to release the lease; other executors wait until it expires", "error", err)
	}
}

// readLease reads the lease of a member and updates the membership.
func (s *Set) readLease(ctx context.Context, member string) error {
	lease, err := s.leases().Get(ctx, s.leaseName(member), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.membership.observeMissing(member)
		return nil
	}
	if err != nil {
		return kubernetes.ServerError(err, "inspect the lease of %s", member)
	}
	s.recordLease(lease)
	return nil
}

// recordLease records a lease of the set in the membership.
func (s *Set) recordLease(lease *coordinationv1.Lease) {
	if !s.ofSet(lease) {
		return
	}
	duration := DefaultLease
	if d := lease.Spec.LeaseDurationSeconds; d != nil && *d > 0 {
		duration = time.Duration(*d) * time.Second
	}
	s.membership.observe(*lease.Spec.HolderIdentity, lease.ResourceVersion, duration)
}

// ofSet reports whether a lease belongs to a member of the set.
func (s *Set) ofSet(lease *coordinationv1.Lease) bool {
	member := lease.Spec.HolderIdentity
	return member != nil && *member != "" && lease.Annotations[annotationSet] == s.options.Name
}

// removeLease removes the lease of a member that vanished long ago and has no
// keys left.
func (s *Set) removeLease(ctx context.Context, lease *coordinationv1.Lease) {
	err := s.leases().Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	switch {
	case err == nil:
		s.log.InfoContext(ctx, "removed the lease of a member that vanished", "vanished", *lease.Spec.HolderIdentity)
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		s.log.DebugContext(ctx, "failed to remove a lease", "error", err)
	}
}

func (s *Set) leases() *kubeclient.Leases {
	return s.client.Leases(s.options.Namespace)
}

func (s *Set) leaseName(member string) string { return dnsName(s.options.Prefix, member) }

// notInNames matches characters that names of objects cannot contain.
var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// dnsName returns an object name for any text: a readable form of the text and
// a hash that distinguishes it from all other texts.
func dnsName(prefix, text string) string {
	const room = 100
	sum := sha256.Sum256([]byte(text))
	readable := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), ".-")
	readable = strings.Trim(readable[:min(len(readable), room)], ".-")
	if readable != "" {
		readable += "-"
	}
	return prefix + "-" + readable + hex.EncodeToString(sum[:5])
}

// unavailable gives an error CodeUnavailable, so that the caller retries.
func unavailable(err error) error {
	if run.CodeOf(err) == run.CodeUnavailable {
		return err
	}
	return run.Errorf(run.CodeUnavailable, "%w", err)
}
