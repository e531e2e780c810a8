package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/run"
)

// simulation is the simulated cloud, with the tasks.
type simulation struct {
	trace         []Arrival // arrivals in the future begin at next
	next          int
	options       Options
	rules         *scaling.Rules
	limits        scaling.Limits
	now           time.Time
	events        eventHeap
	pushed        int
	queue         []Arrival // waiting tasks, oldest first
	machines      map[string]*machine
	order         []*machine // the same, oldest first
	made          int
	running       int
	waited        []time.Duration
	memory        scaling.Memory
	terms         scaling.Terms
	termsChangeAt time.Time // when the terms may change
	decideAt      time.Time // when a decision is due without an event
	chance        *rand.Rand
	meter         *meter
}

type machine struct {
	scaling.Instance
}

type eventKind int

const (
	eventReady eventKind = iota
	eventTaskEnd
	eventGone
)

type event struct {
	at      time.Time
	seq     int // orders events at the same time by creation
	kind    eventKind
	machine *machine
}

type eventHeap []event

// Len implements heap.Interface.
func (h eventHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h eventHeap) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), cmp.Compare(h[i].seq, h[j].seq)) < 0
}

// Swap implements heap.Interface.
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *eventHeap) Push(x any) {
	if e, ok := x.(event); ok {
		*h = append(*h, e)
	}
}

// Pop implements heap.Interface.
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

func (w *simulation) push(after time.Duration, kind eventKind, m *machine) {
	w.pushed++
	heap.Push(&w.events, event{at: w.now.Add(after), seq: w.pushed, kind: kind, machine: m})
}

// run processes the events, and decides after each one.
func (w *simulation) run(ctx context.Context) error {
	for events := 0; ; events++ {
		if events > maxEvents {
			return run.Errorf(run.CodeInvalid, "the simulation does not end")
		}
		if events%1000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.processDue()
		w.assign()
		w.decide()
		if w.done() {
			w.meter.advance(w.meter.end, w.count())
			return nil
		}
		at := w.nextTime()
		w.meter.advance(at, w.count())
		w.now = at
	}
}

// done reports whether all tasks have ended and the whole days are over.
func (w *simulation) done() bool {
	if w.next < len(w.trace) || len(w.queue) > 0 || w.running > 0 {
		return false
	}
	return !w.nextTime().Before(w.meter.end)
}

// nextTime returns the time of the next event. There always is one: the terms
// may change.
func (w *simulation) nextTime() time.Time {
	at := w.termsChangeAt
	if !w.decideAt.IsZero() {
		at = earliest(at, w.decideAt)
	}
	if len(w.events) > 0 {
		at = earliest(at, w.events[0].at)
	}
	if w.next < len(w.trace) {
		at = earliest(at, w.trace[w.next].At)
	}
	return at
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// processDue processes all events that are due.
func (w *simulation) processDue() {
	for w.next < len(w.trace) && !w.trace[w.next].At.After(w.now) {
		w.queue = append(w.queue, w.trace[w.next])
		w.next++
	}
	for len(w.events) > 0 && !w.events[0].at.After(w.now) {
		e, _ := heap.Pop(&w.events).(event)
		switch m := e.machine; e.kind {
		case eventReady:
			if m.State == scaling.StateRequested {
				m.State, m.IdleSince = scaling.StateReady, w.now
			}
		case eventTaskEnd:
			m.Busy--
			w.running--
			m.IdleSince = w.now
		case eventGone:
			delete(w.machines, m.ID)
			w.order = slices.DeleteFunc(w.order, func(other *machine) bool { return other == m })
		}
	}
}

// assign gives tasks to free slots. It chooses among several slots at random,
// because executors poll one queue.
func (w *simulation) assign() {
	for len(w.queue) > 0 {
		var free []*machine
		for _, m := range w.order {
			if m.State == scaling.StateReady && m.Busy < w.limits.Capacity && (w.limits.MaxUse == 0 || m.Used < w.limits.MaxUse) {
				free = append(free, m)
			}
		}
		if len(free) == 0 {
			return
		}
		m, task := free[w.chance.IntN(len(free))], w.queue[0]
		w.queue = w.queue[1:]
		m.Busy++
		m.Used++
		w.running++
		w.waited = append(w.waited, w.now.Sub(task.At))
		w.push(task.Duration, eventTaskEnd, m)
	}
}

func (w *simulation) decide() {
	if !w.now.Before(w.termsChangeAt) {
		w.terms, w.termsChangeAt = w.rules.At(w.now), w.rules.Next(w.now)
	}
	in := scaling.Input{Now: w.now, Limits: w.limits, Terms: w.terms, Demand: scaling.Demand{Queued: len(w.queue)}, Memory: w.memory}
	for _, m := range w.order {
		in.Instances = append(in.Instances, m.Instance)
	}
	d := scaling.Decide(in)
	w.memory, w.decideAt = d.Memory, d.NextAt
	for _, a := range d.Actions {
		if a.Kind == scaling.Request {
			for range a.Count {
				w.create()
			}
			continue
		}
		m := w.machines[a.ID]
		m.State = scaling.StateDeleting
		w.push(w.options.Shutdown, eventGone, m)
	}
}

func (w *simulation) create() {
	w.made++
	m := &machine{Instance: scaling.Instance{ID: fmt.Sprintf("%07d", w.made), State: scaling.StateRequested, RequestedAt: w.now}}
	w.machines[m.ID] = m
	w.order = append(w.order, m)
	w.push(w.options.Boot+time.Duration(w.chance.Int64N(int64(w.options.Boot/4)+1)), eventReady, m)
}

func (w *simulation) count() counts {
	c := counts{waiting: len(w.queue), machines: len(w.order)}
	for _, m := range w.order {
		switch {
		case m.Busy > 0:
			c.busy++
		case m.State == scaling.StateReady:
			c.idle++
		}
	}
	return c
}
