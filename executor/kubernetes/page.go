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

// What the ConfigMap of a key has besides its labels.
const (
	// pageField holds the lines of the journal.
	pageField = "journal"
	// annotationSet names the set, as a label may not be able to.
	annotationSet = "drover.run/set"
	// annotationHolder names the member that has the key.
	annotationHolder = "drover.run/holder"
	// annotationTerm counts the members that have had the key: one that takes
	// it over a second time is told from itself.
	annotationTerm = "drover.run/term"
	// annotationAdopt and annotationStop are orders for who has the key.
	annotationAdopt = "drover.run/adopt" // a token, in base64
	annotationStop  = "drover.run/stop"
)

// Bounds of a page. A ConfigMap may have 1 MiB.
const (
	pageGrown = 64 << 10
	pageLimit = 900 << 10
)

// writeTries is how often a write is tried that others' orders come before.
const writeTries = 5

// page is the ConfigMap of a key as the member that has it writes it: every
// write says which version of it was read, so that it is refused when another
// member has taken the key over.
type page struct {
	set  *Set
	key  run.Key
	uid  types.UID
	term string

	mu      sync.Mutex
	object  *corev1.ConfigMap // as it was read or written last
	content []byte            // the lines
	lazy    time.Time         // since when there is something to write; zero: there is nothing
	taken   []byte            // the token of an order that is done
	lost    bool

	orders orders
}

var _ executor.Lines = (*page)(nil)

// orders are those that the keeper was told of.
type orders struct {
	mu      sync.Mutex
	stopped bool
	adopt   string // as the annotation has it; "" when it may be told again
}

// fresh returns the orders on a page that the keeper was not told of, and notes
// that it is.
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

// forgetStop has an order told again; likewise forgetAdopt.
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
		case apierrors.IsForbidden(err), apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err): // it was not made
			return run.Errorf(run.CodeExhausted, "making the page of %s: %w", key, err)
		case err != nil:
			return serverError(err, "making the page of %s", key)
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

// reserve keeps others of this process from a key until settle.
func (s *Set) reserve(key run.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key] != nil || s.busy[key] {
		return run.Errorf(run.CodeConflict, "there is a page of %s", key)
	}
	s.busy[key] = true
	return nil
}

// settle opens a page, unless it could not be had.
func (s *Set) settle(key run.Key, p *page, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, key)
	if err == nil {
		s.open[key] = p
	}
}

// part ends what this member has to do with a page.
func (s *Set) part(p *page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[p.key] == p {
		delete(s.open, p.key)
	}
}

// adopt takes the object over as it was read or written; the lock is held, or
// the page is new.
func (p *page) adopt(object *corev1.ConfigMap) {
	p.object, p.uid = object, object.UID
}

// Append implements executor.Lines. A lazy line goes with the next that is not,
// or after a while.
func (p *page) Append(line []byte, d executor.Durability) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		return executor.ErrLost
	}
	if len(p.content)+len(line) > pageLimit {
		return run.Errorf(run.CodeTooLarge, "the page of %s is full", p.key)
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

// Rewrite implements executor.Lines. What was written stays written: it goes
// with the next line.
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

// flush writes what is lazy.
func (p *page) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lazy.IsZero() || p.lost {
		return nil
	}
	return p.put(p.content)
}

// overdue reports whether lazy lines have waited for long enough.
func (p *page) overdue(now time.Time) bool {
	if !p.mu.TryLock() { // it is being written
		return false
	}
	defer p.mu.Unlock()
	return !p.lazy.IsZero() && now.Sub(p.lazy) > lazyLimit
}

// put writes the lines; the lock is held.
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

// reread reads the object again after a write was refused, and returns an
// error unless it is worth another try.
func (p *page) reread(ctx context.Context, refused error, n int) error {
	switch {
	case apierrors.IsNotFound(refused):
		return executor.ErrLost
	case !apierrors.IsConflict(refused), n >= writeTries:
		return unavailable(serverError(refused, "writing the page of %s", p.key))
	}
	object, err := p.set.configMaps().Get(ctx, p.object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return executor.ErrLost
	case err != nil:
		return unavailable(serverError(err, "reading the page of %s", p.key))
	case !p.is(object):
		return executor.ErrLost
	}
	p.adopt(object)
	return nil
}

// is reports whether an object is the page of this member.
func (p *page) is(object metav1.Object) bool {
	notes := object.GetAnnotations()
	return object.GetUID() == p.uid && notes[annotationHolder] == p.set.options.Member && notes[annotationTerm] == p.term
}

// Remove implements executor.Lines. What is owned by the page goes with it.
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

// done notes that an order to adopt was carried out: it goes from the page
// with the next write.
func (p *page) done(token []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = token
	if p.lazy.IsZero() {
		p.lazy = p.set.now()
	}
}

// lose ends the page, which is another member's. It reports whether that is
// new.
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

// nextTerm counts on.
func nextTerm(term string) string {
	n, err := strconv.Atoi(term)
	if err != nil {
		n = 0
	}
	return strconv.Itoa(n + 1)
}
