package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/drover-run/drover/run"
)

// ServerError wraps an error of the client with a code and with the operation
// that failed.
func ServerError(err error, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	return &run.Error{Code: codeOf(err), Message: doing + ": " + err.Error(), Err: err}
}

// codeOf returns the code of a failed call. If the server does not grant this
// executor a right, no task is at fault: the error counts as CodeUnavailable.
func codeOf(err error) run.Code {
	var known *run.Error
	var network net.Error
	switch {
	case errors.As(err, &known):
		return known.Code
	case errors.Is(err, context.Canceled):
		return run.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return run.CodeTimeout
	case apierrors.IsNotFound(err):
		return run.CodeNotFound
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return run.CodeConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return run.CodeInvalid
	case apierrors.ReasonForError(err) != "", // the server answers, but is unhealthy or does not know the executor
		utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), utilnet.IsHTTP2ConnectionLost(err), utilnet.IsProbableEOF(err),
		errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return run.CodeUnavailable
	}
	return run.CodeInternal
}

// refusal classifies why the server did not create a pod.
type refusal int

const (
	refusedPermanently refusal = iota // the pod itself is at fault
	refusedTemporarily                // there is no room in the namespace's quota
	notRefused                        // the server, or the executor's rights, are at fault
)

// refusalOf classifies the error of the creation of a pod.
func refusalOf(err error) refusal {
	text := err.Error()
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return refusedPermanently
	case !apierrors.IsForbidden(err):
		return notRefused
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), strings.Contains(text, " cannot create resource "):
		return notRefused
	case strings.Contains(text, "exceeded quota: "):
		if exceedsQuota(text) {
			return refusedPermanently
		}
		return refusedTemporarily
	}
	return refusedPermanently // an admission plugin
}

// exceedsQuota reports whether a pod requests more than the whole quota, so
// that waiting does not help. The server's message has the form "exceeded
// quota: name, requested: a=1,b=2, used: a=3,b=4, limited: a=3,b=4".
func exceedsQuota(text string) bool {
	requested, limited := amounts(text, "requested: "), amounts(text, "limited: ")
	for name, want := range requested {
		if limit, ok := limited[name]; ok && want.Cmp(limit) > 0 {
			return true
		}
	}
	return false
}

// amounts parses the list that follows a word.
func amounts(text, word string) map[string]resource.Quantity {
	_, list, _ := strings.Cut(text, word)
	list, _, _ = strings.Cut(list, ", ")
	found := make(map[string]resource.Quantity)
	for entry := range strings.SplitSeq(list, ",") {
		name, amount, _ := strings.Cut(entry, "=")
		if q, err := resource.ParseQuantity(amount); err == nil {
			found[name] = q
		}
	}
	return found
}
