package executorset

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/executor/kubernetes/kubeclient"
	"github.com/drover-run/drover/run"
)

// Field and annotations of the ConfigMap of a key.
const (
	// journalField holds the lines of the journal.
	journalField = "journal"
	// annotationSet is the full name of the set, which a label may not be able
	// to hold.
	annotationSet = "drover.run/set"
	// annotationHolder is the member that holds the key.
	annotationHolder = "drover.run/holder"
	// annotationTerm counts the holders of the key. A member that adopts the
	// key a second time is thus distinguished from its earlier term.
	annotationTerm = "drover.run/term"
	// annotationAdopt and annotationStop are orders for the holder of the key.
	annotationAdopt = "drover.run/adopt" // a token, in base64
	annotationStop  = "drover.run/stop"
)

// The values of annotationStop.
const (
	stopPlain  = "true"
	stopForced = "force" // without a cleanup; an older member takes it for a plain one
)

// Bounds of the journal of an entry. A ConfigMap may have 1 MiB.
const (
	rewriteSize = 64 << 10
	maxJournal  = 900 << 10
)

// writeTries is how often a write is tried if other members' orders change the
// entry first.
const writeTries = 5

// entry is the ConfigMap of a key, written by the member that holds the key.
// Every write names the version that was read, so the server refuses it after
// another member has adopted the key.
type entry struct {
	set  *Set
	key  run.Key
	uid  types.UID
	term string

	mu           sync.Mutex
	object       *corev1.ConfigMap // last version read or written
	content      []byte            // the lines
	dirtySince   time.Time         // since when unwritten lines exist; zero if there are none
	adoptedToken []byte            // token of an adopt order that was carried out
	lost         bool

	orders orders
}

var _ executor.Lines = (*entry)(nil)

// orders records which orders were delivered to the executor.
type orders struct {
	mu             sync.Mutex
	stopDelivered  string // value of the annotation
	adoptDelivered string // value of the annotation; "" if the order may be delivered again
}

// takeNew returns the orders of an entry that were not delivered yet, and marks
// them as delivered.
func (o *orders) takeNew(annotations map[string]string) (stop, adopt string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// A plain order that arrives after a forced one replaces its annotation, but not
	// its effect.
	if s := annotations[annotationStop]; s != "" && s != o.stopDelivered && o.stopDelivered != stopForced {
		o.stopDelivered, stop = s, s
	}
	if a := annotations[annotationAdopt]; a != "" && a != o.adoptDelivered {
		o.adoptDelivered, adopt = a, a
	}
	return stop, adopt
}

// resetStop marks the stop order as not delivered.
func (o *orders) resetStop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopDelivered = ""
}

func (o *orders) resetAdopt(adopt string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.adoptDelivered == adopt {
		o.adoptDelivered = ""
	}
}

// Create implements executor.Journal.
func (s *Set) Create(key run.Key, line []byte) (executor.Lines, error) {
	if err := s.reserve(key); err != nil {
		return nil, err
	}
	e := &entry{set: s, key: key, term: "1", content: append(bytes.Clone(line), '\n')}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:   s.name(key),
			Labels: kubernetes.Labels(key, s.options.Member, s.options.Name),
			Annotations: map[string]string{
				annotationSet: s.options.Name, annotationHolder: s.options.Member, annotationTerm: e.term,
			},
		},
		Data: map[string]string{journalField: string(e.content)},
	}
	err := s.do(func(ctx context.Context) error {
		created, err := s.configMaps().Create(ctx, object, metav1.CreateOptions{})
		switch {
		case apierrors.IsForbidden(err), apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err): // the entry was not created
			return run.Errorf(run.CodeExhausted, "create the entry of %s: %w", key, err)
		case err != nil:
			return kubernetes.ServerError(err, "create the entry of %s", key)
		}
		e.setObject(created)
		return nil
	})
	s.finishReservation(key, e, err)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// reserve reserves a key within this process until finishReservation is called.
func (s *Set) reserve(key run.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[key] != nil || s.busy[key] {
		return run.Errorf(run.CodeConflict, "there is an entry of %s", key)
	}
	s.busy[key] = true
	return nil
}

// finishReservation ends the reservation and, without an error, opens the entry.
func (s *Set) finishReservation(key run.Key, e *entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, key)
	if err == nil {
		s.entries[key] = e
	}
}

// closeEntry closes an entry on this member.
func (s *Set) closeEntry(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[e.key] == e {
		delete(s.entries, e.key)
	}
}

// setObject stores the object as it was read or written. The caller holds the lock,
// or the entry is new.
func (e *entry) setObject(object *corev1.ConfigMap) {
	e.object, e.uid = object, object.UID
}

// Append implements executor.Lines. A lazy line is written with the next line
// that is not lazy, or after lazyLimit.
func (e *entry) Append(line []byte, d executor.Durability) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost {
		return executor.ErrLost
	}
	if len(e.content)+len(line) > maxJournal {
		return run.Errorf(run.CodeTooLarge, "the entry of %s is full", e.key)
	}
	content := append(append(bytes.Clone(e.content), line...), '\n')
	if d == executor.Lazy {
		e.content = content
		if e.dirtySince.IsZero() {
			e.dirtySince = e.set.now()
		}
		return nil
	}
	return e.write(content)
}

// NeedsRewrite implements executor.Lines.
func (e *entry) NeedsRewrite() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.content) > rewriteSize
}

// Rewrite implements executor.Lines. The new content is written with the next
// line.
func (e *entry) Rewrite(line []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost {
		return executor.ErrLost
	}
	e.content = append(bytes.Clone(line), '\n')
	return nil
}

// Close implements executor.Lines.
func (e *entry) Close() error {
	defer e.set.closeEntry(e)
	return e.flush()
}

// flush writes the lazy lines.
func (e *entry) flush() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dirtySince.IsZero() || e.lost {
		return nil
	}
	return e.write(e.content)
}

// overdue reports whether lazy lines have waited longer than lazyLimit.
func (e *entry) overdue(now time.Time) bool {
	if !e.mu.TryLock() { // a write is in progress
		return false
	}
	defer e.mu.Unlock()
	return !e.dirtySince.IsZero() && now.Sub(e.dirtySince) > lazyLimit
}

// write writes the lines. The caller holds the lock.
func (e *entry) write(content []byte) error {
	err := e.set.do(func(ctx context.Context) error {
		for n := 1; ; n++ {
			object := e.object.DeepCopy()
			object.Data = map[string]string{journalField: string(content)}
			if e.adoptedToken != nil && object.Annotations[annotationAdopt] == encodeToken(e.adoptedToken) {
				delete(object.Annotations, annotationAdopt)
			}
			written, err := e.set.configMaps().Update(ctx, object, metav1.UpdateOptions{})
			if err == nil {
				e.setObject(written)
				return nil
			}
			if err := e.reread(ctx, err, n); err != nil {
				return err
			}
		}
	})
	switch {
	case err == nil:
		e.content, e.dirtySince = content, time.Time{}
	case errors.Is(err, executor.ErrLost):
		e.lost = true
		e.set.closeEntry(e)
	}
	return err
}

// reread reads the object again after the server refused a write. It returns an
// error unless another try may succeed.
func (e *entry) reread(ctx context.Context, refused error, n int) error {
	switch {
	case apierrors.IsNotFound(refused):
		return executor.ErrLost
	case !apierrors.IsConflict(refused), n >= writeTries:
		return unavailable(kubernetes.ServerError(refused, "write the entry of %s", e.key))
	}
	object, err := e.set.configMaps().Get(ctx, e.object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return executor.ErrLost
	case err != nil:
		return unavailable(kubernetes.ServerError(err, "read the entry of %s", e.key))
	case !e.matches(object):
		return executor.ErrLost
	}
	e.setObject(object)
	return nil
}

// matches reports whether an object is this entry in this member's term.
func (e *entry) matches(object metav1.Object) bool {
	annotations := object.GetAnnotations()
	return object.GetUID() == e.uid && annotations[annotationHolder] == e.set.options.Member && annotations[annotationTerm] == e.term
}

// Remove implements executor.Lines. Objects that the entry owns are deleted
// with it.
func (e *entry) Remove() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost {
		return executor.ErrLost
	}
	background := metav1.DeletePropagationBackground
	err := e.set.do(func(ctx context.Context) error {
		for n := 1; ; n++ {
			err := e.set.configMaps().Delete(ctx, e.object.Name, metav1.DeleteOptions{
				Preconditions:     &metav1.Preconditions{UID: &e.uid, ResourceVersion: &e.object.ResourceVersion},
				PropagationPolicy: &background,
			})
			if err == nil {
				return nil
			}
			if err := e.reread(ctx, err, n); err != nil {
				return err
			}
		}
	})
	if err == nil || errors.Is(err, executor.ErrLost) {
		e.lost = true
		e.set.closeEntry(e)
	}
	return err
}

// markAdopted records that an adopt order was carried out. The next write removes it
// from the entry.
func (e *entry) markAdopted(token []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.adoptedToken = token
	if e.dirtySince.IsZero() {
		e.dirtySince = e.set.now()
	}
}

// release closes the entry because another member holds the key. It reports
// whether the entry was still open.
func (e *entry) release() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	previous := e.lost
	e.lost = true
	e.set.closeEntry(e)
	return !previous
}

func (s *Set) configMaps() *kubeclient.ConfigMaps {
	return s.client.ConfigMaps(s.options.Namespace)
}

func encodeToken(token []byte) string { return base64.StdEncoding.EncodeToString(token) }

// nextTerm returns the term after the given one.
func nextTerm(term string) string {
	n, err := strconv.Atoi(term)
	if err != nil {
		n = 0
	}
	return strconv.Itoa(n + 1)
}
