package kubernetes

import (
	"context"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-run/drover/run"
)

// rights records that the API server grants this executor all required rights.
type rights struct {
	mu    sync.Mutex
	known bool
}

// right is the set of verbs that an executor needs on a kind of objects.
type right struct{ group, resource, verbs string }

// neededRights returns the rights that an executor needs in its namespace; a member
// of a set needs more. docs/kubernetes.md and docs/sets.md list them as a Role.
func neededRights(member bool) []authorizationv1.ResourceAttributes {
	rights := []right{
		{"", "pods", "create get list watch delete patch"},
		{"", "pods/exec", "create get"},
		{"", "pods/log", "get"},
		{"", "secrets", "create delete"},
		{"", "events", "list"},
	}
	if member {
		rights = append(rights,
			right{"", "configmaps", "create get list watch update patch delete"},
			right{"coordination.k8s.io", "leases", "create get list watch update delete"})
	}
	var all []authorizationv1.ResourceAttributes
	for _, n := range rights {
		resource, sub, _ := strings.Cut(n.resource, "/")
		for verb := range strings.FieldsSeq(n.verbs) {
			all = append(all, authorizationv1.ResourceAttributes{Group: n.group, Resource: resource, Subresource: sub, Verb: verb})
		}
	}
	return all
}

// Check implements executor.Driver. Until the first success it also checks that
// the API server grants this executor all required rights.
func (d *Driver) Check(ctx context.Context) error {
	call, cancel := d.call(ctx)
	defer cancel()
	if _, err := d.pods().List(call, metav1.ListOptions{LabelSelector: d.selector(), Limit: 1}); err != nil {
		return ServerError(err, "query the cluster")
	}
	d.rights.mu.Lock()
	defer d.rights.mu.Unlock()
	if d.rights.known {
		return nil
	}
	for _, n := range neededRights(d.options.Set != "") {
		n.Namespace = d.options.Namespace
		if err := d.checkRight(ctx, n); err != nil {
			return err
		}
	}
	d.rights.known = true
	return nil
}

func (d *Driver) checkRight(ctx context.Context, attributes authorizationv1.ResourceAttributes) error {
	ctx, cancel := d.call(ctx)
	defer cancel()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
	answer, err := d.client.AccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return ServerError(err, "review access rights in the cluster")
	}
	if answer.Status.Allowed {
		return nil
	}
	name := attributes.Resource
	if attributes.Subresource != "" {
		name += "/" + attributes.Subresource
	}
	return run.Errorf(run.CodeUnavailable, "the cluster does not let this executor %s %s in the namespace %s", attributes.Verb, name, attributes.Namespace)
}
