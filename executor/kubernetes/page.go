package kubernetes

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
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// Field and annotations of the ConfigMap of a key.
const (
	// pageField holds the lines of the journal.
	pageField = "journal"
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

// Bounds of the journal of an entry. A ConfigMap may have 1 MiB.
const (
	pageGrown = 64 << 10
	pageLimit = 900 << 10
)

// writeTries is how often a write is tried if other members' orders change the
// entry first.
const writeTries = 5

// page is the ConfigMap of a key, written by the member that holds the key.
// Every write names the version that was read, so the server refuses it after
// another member has adopted the key.
type page struct {
	set  *Set
	key  run.Key
	uid  types.UID
	term string

	mu      sync.Mutex
	object  *corev1.ConfigMap // last version read or written
	content []byte            // the lines
	lazy    time.Time         // since when unwritten lines exist; zero if there are none
	taken   []byte            // token of an adopt order that was carried out
	lost    bool

	orders orders
}

var _ executor.Lines = (*page)(nil)

// orders records which orders were delivered to the executor.
type orders struct {
	mu      sync.Mutex
	stopped bool
	adopt   string // value of the annotation; "" if the order may be delivered again
}

// fresh returns the orders of an entry that were not delivered yet, and marks
// them as delivered.
func (o *orders) fresh(notes map[string]string) (stop bool, adopt string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if stop = notes[annotationStop] != "" && !o.stopped; stop {
		o.stopped = true
	}
	if a := notes[annotationAdopt]; a != "" && a != o.adopt {
		o.adopt, adopt = a, a
	}
	return stop, adopt
}

// forgetStop marks the stop order as not delivered.
func (o *orders) forgetStop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = false
}

func (o *orders) forgetAdopt(adopt string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.adopt == adopt {
		o.adopt = ""
	}
}

// Create implements executor.Journal.
func (s *Set) Create(key run.Key, line []byte) (executor.Lines, error) {
	if err := s.reserve(key); err != nil {
		return nil, err
	}
	p := &page{set: s, key: key, term: "1", content: append(bytes.Clone(line), '\n')}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:   s.name(key),
			Labels: Labels(key, s.options.Member, s.options.Name),
			Annotations: map[string]string{
				annotationSet: s.options.Name, annotationHolder: s.options.Member, annotationTerm: p.term,
			},
		},
		Data: map[string]string{pageField: string(p.content)},
	}
	err := s.do(func(ctx context.Context) error {
		made, err := s.configMaps().Create(ctx, object, metav1.CreateOptions{})
		switch {
		case apierrors.IsForbidden(err), apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err): // the entry was not created
			return run.Errorf(run.CodeExhausted, "create the entry of %s: %w", key, err)
		case err != nil:
			return serverError(err, "create the entry of %s", key)
		}
		p.adopt(made)
		return nil
	})
	s.settle(key, p, err)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// reserve reserves a key within this process until finishReservation is called.
func (s *Set) reserve(key run.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key] != nil || s.busy[key] {
		return run.Errorf(run.CodeConflict, "there is an entry of %s", key)
	}
	s.busy[key] = true
	return nil
}

// settle ends the reservation and, without an error, opens the entry.
func (s *Set) settle(key run.Key, p *page, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, key)
	if err == nil {
		s.open[key] = p
	}
}

// part closes an entry on this member.
func (s *Set) part(p *page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[p.key] == p {
		delete(s.open, p.key)
	}
}

// adopt stores the object as it was read or written. The caller holds the lock,
// or the entry is new.
func (p *page) adopt(object *corev1.ConfigMap) {
	p.object, p.uid = object, object.UID
}

// Append implements executor.Lines. A lazy line is written with the next line
// that is not lazy, or after lazyLimit.
func (p *page) Append(line []byte, d executor.Durability) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		return executor.ErrLost
	}
	if len(p.content)+len(line) > pageLimit {
		return run.Errorf(run.CodeTooLarge, "the entry of %s is full", p.key)
	}
	content := append(append(bytes.Clone(p.content), line...), '\n')
	if d == executor.Lazy {
		p.content = content
		if p.lazy.IsZero() {
			p.lazy = p.set.now()
		}
		return nil
	}
	return p.put(content)
}

// Grown implements executor.Lines.
func (p *page) Grown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.content) > pageGrown
}

// Rewrite implements executor.Lines. The new content is written with the next
// line.
func (p *page) Rewrite(line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		return executor.ErrLost
	}
	p.content = append(bytes.Clone(line), '\n')
	return nil
}

// Close implements executor.Lines.
func (p *page) Close() error {
	defer p.set.part(p)
	return p.flush()
}

// flush writes the lazy lines.
func (p *page) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lazy.IsZero() || p.lost {
		return nil
	}
	return p.put(p.content)
}

// overdue reports whether lazy lines have waited longer than lazyLimit.
func (p *page) overdue(now time.Time) bool {
	if !p.mu.TryLock() { // a write is in progress
		return false
	}
	defer p.mu.Unlock()
	return !p.lazy.IsZero() && now.Sub(p.lazy) > lazyLimit
}

// put writes the lines. The caller holds the lock.
func (p *page) put(content []byte) error {
	err := p.set.do(func(ctx context.Context) error {
		for n := 1; ; n++ {
			object := p.object.DeepCopy()
			object.Data = map[string]string{pageField: string(content)}
			if p.taken != nil && object.Annotations[annotationAdopt] == encodeToken(p.taken) {
				delete(object.Annotations, annotationAdopt)
			}
			written, err := p.set.configMaps().Update(ctx, object, metav1.UpdateOptions{})
			if err == nil {
				p.adopt(written)
				return nil
			}
			if err := p.reread(ctx, err, n); err != nil {
				return err
			}
		}
	})
	switch {
	case err == nil:
		p.content, p.lazy = content, time.Time{}
	case errors.Is(err, executor.ErrLost):
		p.lost = true
		p.set.part(p)
	}
	return err
}

// reread reads the object again after the server refused a write. It returns an
// error unless another try may succeed.
func (p *page) reread(ctx context.Context, refused error, n int) error {
	switch {
	case apierrors.IsNotFound(refused):
		return executor.ErrLost
	case !apierrors.IsConflict(refused), n >= writeTries:
		return unavailable(serverError(refused, "write the entry of %s", p.key))
	}
	object, err := p.set.configMaps().Get(ctx, p.object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return executor.ErrLost
	case err != nil:
		return unavailable(serverError(err, "read the entry of %s", p.key))
	case !p.is(object):
		return executor.ErrLost
	}
	p.adopt(object)
	return nil
}

// is reports whether an object is this entry in this member's term.
func (p *page) is(object metav1.Object) bool {
	notes := object.GetAnnotations()
	return object.GetUID() == p.uid && notes[annotationHolder] == p.set.options.Member && notes[annotationTerm] == p.term
}

// Remove implements executor.Lines. Objects that the entry owns are deleted
// with it.
func (p *page) Remove() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		return executor.ErrLost
	}
	background := metav1.DeletePropagationBackground
	err := p.set.do(func(ctx context.Context) error {
		for n := 1; ; n++ {
			err := p.set.configMaps().Delete(ctx, p.object.Name, metav1.DeleteOptions{
				Preconditions:     &metav1.Preconditions{UID: &p.uid, ResourceVersion: &p.object.ResourceVersion},
				PropagationPolicy: &background,
			})
			if err == nil {
				return nil
			}
			if err := p.reread(ctx, err, n); err != nil {
				return err
			}
		}
	})
	if err == nil || errors.Is(err, executor.ErrLost) {
		p.lost = true
		p.set.part(p)
	}
	return err
}

// done records that an adopt order was carried out. The next write removes it
// from the entry.
func (p *page) done(token []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = token
	if p.lazy.IsZero() {
		p.lazy = p.set.now()
	}
}

// lose closes the entry because another member holds the key. It reports
// whether the entry was still open.
func (p *page) lose() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.lost
	p.lost = true
	p.set.part(p)
	return !was
}

func (s *Set) configMaps() typed.ConfigMapInterface {
	return s.client.CoreV1().ConfigMaps(s.options.Namespace)
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
