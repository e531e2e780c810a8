package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/executor"
)

// The life cycle of a task in one process is a state machine. A task is in one state
// of each region; an event moves it in one or more regions. The table of transitions
// lists all moves: an event without a row for the current state is an internal error
// and changes nothing.
//
//	progress   new ──▶ claimed ──▶ claim sent ──▶ starting ──▶ launched ──▶ ended
//	                      │             │             │
//	                      └─────────────┴─────────────┴──▶ closed
//
// The regions:
//
//   - Progress says what may have run of the task. Its recorded states are the states
//     of the journal on disk. Three states exist in memory only, on top of the
//     recorded one: the claim was sent, and the end or the requeue is decided but not
//     recorded yet.
//   - Token says who waits for the outcome. The journal has the token and whether the
//     outcome was accepted. That the service refused the token is known in memory only.
//   - Ownership says whether this process works on the key. It begins as active in
//     each process; erased and released are final.
//   - Stop says whether a stop was requested, and whether it was forced. The service
//     repeats the request to the next process.
//   - Slot says how the task counts towards the slots of the executor.
//
// A task begins in the states of initialStates, or, if the journal has the key, in
// those of statesOf. Only task.enter changes them.

// state is a state of one region. The names of all regions differ.
type state string

// The states of progress. Their order is that of a task's life cycle; closed is a
// branch from every state before launched. The journal has those without "in memory".
const (
	// stateNew: the journal has no entry of the key.
	stateNew state = ""
	// stateClaimed: the entry exists, and the claim is about to be requested.
	stateClaimed state = "claimed"
	// stateClaimSent, in memory, recorded as claimed: the gateway may have granted the
	// claim.
	stateClaimSent state = "claim sent"
	// stateStarting: the executor holds the claim and may have called the driver. No
	// step can have run.
	stateStarting state = "starting"
	// stateLaunched: the steps may run. The record is synced before they can.
	stateLaunched state = "launched"
	// stateEndUnrecorded, in memory: the result is known, but the journal of the set
	// has it not yet. It is not reported until then.
	stateEndUnrecorded state = "end not recorded"
	// stateEnded: the result is known.
	stateEnded state = "ended"
	// stateRequeueUnrecorded, in memory, recorded as new, claimed or starting: the key
	// is to be closed. Nothing of it will run in this process.
	stateRequeueUnrecorded state = "requeue not recorded"
	// stateClosed: nothing of the key ran, and nothing of it will run.
	stateClosed state = "closed"
)

// The states of the token.
const (
	tokenNone     state = "no token"       // no outcome can be reported
	tokenValid    state = "valid token"    // as far as this process knows
	tokenRefused  state = "refused token"  // the task waits for an adoption
	tokenAnswered state = "answered token" // the outcome was accepted, or no workflow waits for it
)

// The states of ownership.
const (
	keyActive      state = "active"       // this process works on the key
	keyRetired     state = "retired"      // only the end of its claim is outstanding: see retire
	keyClaimClosed state = "claim closed" // the environment and the entry are to be removed
	keyErased      state = "erased"       // nothing is written any more
	keyReleased    state = "released"     // another member of the set has the key
)

// The states of the stop request.
const (
	stopNone      state = "not stopped"
	stopRequested state = "stop requested"
	stopForced    state = "stop forced" // without a cleanup
)

// The states of the slot.
const (
	slotNone    state = "no slot"
	slotUsed    state = "slot used"
	slotWaiting state = "slot waiting" // the task ended, and counts as waiting to be adopted
)

// region is a part of the state machine.
type region int

const (
	regionProgress region = iota
	regionToken
	regionOwnership
	regionStop
	regionSlot
	regionCount
)

// region returns the region of a state.
func (s state) region() region {
	switch s {
	case tokenNone, tokenValid, tokenRefused, tokenAnswered:
		return regionToken
	case keyActive, keyRetired, keyClaimClosed, keyErased, keyReleased:
		return regionOwnership
	case stopNone, stopRequested, stopForced:
		return regionStop
	case slotNone, slotUsed, slotWaiting:
		return regionSlot
	default:
		return regionProgress
	}
}

// launchable reports whether no step can have run in this state of progress.
func (s state) launchable() bool {
	switch s {
	case stateNew, stateClaimed, stateClaimSent, stateStarting, stateRequeueUnrecorded:
		return true
	default:
		return false
	}
}

// ended reports whether the result is known in this state of progress.
func (s state) ended() bool { return s == stateEnded || s == stateEndUnrecorded }

// event is a cause of transitions.
type event string

// The events. Those that are recorded take effect once their line is in the journal.
const (
	// eventDelivered, recorded: the service confirmed the token of a delivery.
	eventDelivered event = "delivered"
	// eventClaimSent: the claim is requested. A lost response may have granted it.
	eventClaimSent event = "claim sent"
	// eventClaimRefused: the gateway answered that this journal does not hold the claim.
	eventClaimRefused event = "claim refused"
	// eventGranted, recorded: the gateway granted the claim.
	eventGranted event = "granted"
	// eventLaunched, recorded and synced: the driver asked whether the steps may run.
	eventLaunched event = "launched"
	// eventStepsFound, recorded: the driver found steps that began without a launch in
	// the journal.
	eventStepsFound event = "steps found"
	// eventFollowed, recorded: an adoption found the environment of a journal that was
	// lost.
	eventFollowed event = "followed"
	// eventEnded, recorded: the result is known.
	eventEnded event = "ended"
	// eventEndUnrecorded: the same, but the set's journal can not be written.
	eventEndUnrecorded event = "end not recorded"
	// eventEndRecorded, recorded: the set's journal could be written again.
	eventEndRecorded event = "end recorded"
	// eventRequeueDecided: the key is to be closed, but the set's journal can not be
	// written, or its entry is still needed.
	eventRequeueDecided event = "requeue decided"
	// eventRequeued, recorded: the key is closed, and the outcome is reported under the
	// token of the task, or of the delivery if the task has none.
	eventRequeued event = "requeued"
	// eventClosed, recorded: a call that answers itself closed the key: the delivery,
	// or an adoption of a key that had not begun.
	eventClosed event = "closed"

	// eventAdopted, recorded: a new token replaces that of the task.
	eventAdopted event = "adopted"
	// eventTokenRefused: the service answered that the token is not valid any more.
	eventTokenRefused event = "token refused"
	// eventAnswered, recorded: the outcome was accepted, or no workflow waits for it.
	eventAnswered event = "answered"

	// eventRetired: the outcome was accepted and the environment is removed.
	eventRetired event = "retired"
	// eventClaimClosed: the records closed the claim, or the executor was removed.
	eventClaimClosed event = "claim closed"
	// eventErased: the entry was removed, or is left to the next process.
	eventErased event = "erased"
	// eventReplaced: the entry belongs to another task of the same key: see retire.
	eventReplaced event = "replaced"
	// eventReleased: another member of the set has the key.
	eventReleased event = "released"

	// eventStopRequested: a user, a timeout or a workflow wants the task to stop.
	eventStopRequested event = "stop requested"
	// eventStopForced: a user wants it to stop without a cleanup, or the cleanup to end.
	eventStopForced event = "stop forced"

	// eventSlotTaken: the task counts: it was delivered, restored or followed.
	eventSlotTaken event = "slot taken"
	// eventSlotSuspended: the task ended and its token is not valid any more. The
	// delivery by which its workflow adopts it may need the slot.
	eventSlotSuspended event = "slot suspended"
	// eventSlotFreed: a delivery ended because the key was closed meanwhile.
	eventSlotFreed event = "slot freed"
)

// transition is a row of the table: an event moves a task that is in one of the
// states from, which are of one region, to another state of that region.
type transition struct {
	on   event
	from []state
	// when restricts the row: for each region that has states in it, the task must be
	// in one of them.
	when []state
	to   state // unchanged: the event has no effect
}

const unchanged state = "unchanged"

// transitions is the table.
func transitions() []transition {
	var (
		of         = func(all ...state) []state { return all }
		always     []state
		launchable = of(stateNew, stateClaimed, stateClaimSent, stateStarting, stateRequeueUnrecorded)
		ended      = of(stateEnded, stateEndUnrecorded)
		known      = append(of(stateStarting, stateLaunched, stateRequeueUnrecorded), ended...)
		owned      = of(keyActive, keyRetired, keyClaimClosed)
		anyToken   = of(tokenNone, tokenValid, tokenRefused, tokenAnswered)
		anySlot    = of(slotUsed, slotWaiting, slotNone)
	)
	return []transition{
		{eventDelivered, of(stateNew), owned, stateClaimed},
		{eventClaimSent, of(stateClaimed), always, stateClaimSent},
		{eventClaimSent, of(stateNew, stateClaimSent, stateStarting, stateLaunched, stateClosed), always, unchanged},
		{eventClaimRefused, of(stateClaimSent), always, stateClaimed},
		{eventClaimRefused, of(stateClosed), always, unchanged},
		{eventGranted, of(stateClaimSent), owned, stateStarting},
		{eventLaunched, of(stateStarting), of(keyActive, stopNone), stateLaunched},
		{eventStepsFound, of(stateStarting), owned, stateLaunched},
		{eventFollowed, of(stateNew), of(keyActive, keyClaimClosed), stateLaunched},
		{eventEnded, of(stateClaimed, stateClaimSent, stateStarting, stateLaunched), always, stateEnded},
		{eventEndUnrecorded, of(stateClaimed, stateClaimSent, stateStarting, stateLaunched), always, stateEndUnrecorded},
		{eventEndRecorded, of(stateEndUnrecorded), owned, stateEnded},
		{eventRequeueDecided, of(stateNew, stateClaimed, stateClaimSent, stateStarting), always, stateRequeueUnrecorded},
		{eventRequeueDecided, of(stateRequeueUnrecorded, stateClosed), always, unchanged},
		{eventRequeued, launchable, owned, stateClosed},
		{eventClosed, launchable, owned, stateClosed},
		{eventClosed, of(stateClosed), owned, unchanged},

		{eventDelivered, of(tokenNone), always, tokenValid},
		{eventFollowed, anyToken, always, tokenValid},
		{eventRequeued, of(tokenNone), always, tokenValid},
		{eventRequeued, of(tokenValid, tokenRefused), always, unchanged},
		{eventAdopted, anyToken, known, tokenValid},
		{eventTokenRefused, of(tokenNone, tokenValid), always, tokenRefused},
		{eventAnswered, anyToken, append(ended, stateClosed), tokenAnswered},

		{eventAdopted, of(keyRetired), always, keyActive},
		{eventAdopted, of(keyActive, keyClaimClosed), always, unchanged},
		{eventRetired, of(keyActive), of(tokenAnswered, stateEnded, stateClosed), keyRetired},
		{eventClaimClosed, of(keyActive, keyRetired), always, keyClaimClosed},
		{eventClaimClosed, of(keyClaimClosed, keyErased, keyReleased), always, unchanged},
		{eventErased, owned, always, keyErased},
		{eventErased, of(keyErased, keyReleased), always, unchanged},
		{eventReplaced, of(keyActive, keyClaimClosed), always, keyErased},
		{eventReleased, owned, always, keyReleased},
		{eventReleased, of(keyErased), always, keyReleased}, // while the entry was being removed

		{eventStopRequested, of(stopNone), always, stopRequested},
		{eventStopRequested, of(stopRequested, stopForced), always, unchanged},
		{eventStopForced, of(stopNone, stopRequested), always, stopForced},
		{eventStopForced, of(stopForced), always, unchanged},

		{eventSlotTaken, of(slotNone), owned, slotUsed},
		{eventSlotTaken, of(slotNone), of(keyErased, keyReleased), unchanged},
		{eventSlotTaken, of(slotUsed, slotWaiting), always, unchanged},
		{eventSlotSuspended, of(slotUsed), always, slotWaiting},
		{eventSlotSuspended, of(slotNone, slotWaiting), always, unchanged},
		{eventSlotFreed, anySlot, always, slotNone},
		{eventRequeued, anySlot, always, slotNone},
		{eventClosed, anySlot, always, slotNone},
		{eventAnswered, anySlot, always, slotNone},
		{eventErased, anySlot, always, slotNone},
		{eventReplaced, anySlot, always, slotNone},
		{eventReleased, anySlot, always, slotNone},
	}
}

// states has the state of each region.
type states [regionCount]state

// initialStates are the states of a key without an entry in the journal.
func initialStates() states {
	return states{stateNew, tokenNone, keyActive, stopNone, slotNone}
}

// statesOf returns the states of a key whose entry was read from the journal.
func statesOf(e *entry) states {
	s := initialStates()
	s[regionProgress] = e.State
	switch {
	case e.Answered:
		s[regionToken] = tokenAnswered
	case e.Token != nil:
		s[regionToken] = tokenValid
	}
	return s
}

// in reports whether the task is in one of these states, of any region.
func (s states) in(list ...state) bool {
	return slices.ContainsFunc(list, func(one state) bool { return s[one.region()] == one })
}

// stopped reports whether a stop was requested.
func (s states) stopped() bool { return s.in(stopRequested, stopForced) }

// meet reports whether the task is in one of these states in each region that has
// states among them.
func (s states) meet(conditions []state) bool {
	for _, c := range conditions {
		r := c.region()
		if !slices.ContainsFunc(conditions, func(one state) bool { return one.region() == r && one == s[r] }) {
			return false
		}
	}
	return true
}

// String returns the names of all states.
func (s states) String() string {
	names := make([]string, 0, len(s))
	for _, one := range s {
		if one == stateNew {
			one = "new"
		}
		names = append(names, string(one))
	}
	return strings.Join(names, ", ")
}

// machine is the table by event.
type machine map[event][]transition

func newMachine() machine {
	m := machine{}
	for _, row := range transitions() {
		m[row.on] = append(m[row.on], row)
	}
	return m
}

var errIllegalTransition = errors.New("illegal transition")

// illegalTransition is the log message of an event that the table does not permit.
const illegalTransition = "internal error in the life cycle of a task"

// next returns the states after an event. It fails with errIllegalTransition if a
// region with rows of the event has none for its state.
func (m machine) next(s states, e event) (states, error) {
	next := s
	var concerned, matched [regionCount]bool
	for _, row := range m[e] {
		r := row.from[0].region()
		concerned[r] = true
		if matched[r] || !slices.Contains(row.from, s[r]) || !s.meet(row.when) {
			continue
		}
		matched[r] = true
		if row.to != unchanged {
			next[r] = row.to
		}
	}
	if concerned != matched || len(m[e]) == 0 {
		return s, fmt.Errorf("%w: %s in the states %s", errIllegalTransition, e, s)
	}
	return next, nil
}

// progresses reports whether the event has rows of progress: its record names the
// state.
func (m machine) progresses(e event) bool {
	return slices.ContainsFunc(m[e], func(row transition) bool { return row.from[0].region() == regionProgress })
}

// progress returns the state of progress.
func (t *task) progress() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states[regionProgress]
}

// recorded returns the state of progress that the journal has.
func (t *task) recorded() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entry.State
}

// in is states.in for a caller that does not hold the lock.
func (t *task) in(list ...state) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states.in(list...)
}

// move applies an event that is not recorded. It reports whether the event was
// legal. The caller holds the lock.
func (t *task) move(e event) bool {
	next, err := t.next(e)
	if err != nil {
		return false
	}
	t.enter(next)
	return true
}

// signal is move for a caller that does not hold the lock.
func (t *task) signal(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.move(e)
}

// record writes the record of an event to the journal and applies both. The caller
// holds the lock. After an error nothing has changed, unless it is ErrLost: the key
// is then released.
func (t *task) record(e event, r record, d executor.Durability) error {
	if err := t.writable(); err != nil {
		return err
	}
	next, err := t.next(e)
	if err != nil {
		return err
	}
	if t.a.machine.progresses(e) {
		r.State = next[regionProgress]
	}
	if err := t.append(r, d); err != nil {
		return err
	}
	t.enter(next)
	return nil
}

// applyUnrecorded applies an event whose record could not be written. The caller
// holds the lock.
func (t *task) applyUnrecorded(e event, r record) {
	next, err := t.next(e)
	if err != nil {
		return
	}
	r.Time = t.a.now()
	if next[regionProgress].ended() && t.a.machine.progresses(e) {
		r.State = stateEnded
	}
	t.entry.apply(r)
	t.enter(next)
}

// next returns the states after an event, and logs one that the table does not
// permit. The caller holds the lock.
func (t *task) next(e event) (states, error) {
	next, err := t.a.machine.next(t.states, e)
	if err != nil {
		t.log.Error(illegalTransition, "error", err)
	}
	return next, err
}

// enter changes the states, with what follows from that: waiting goroutines are
// notified, and the slot is counted. The caller holds the lock.
func (t *task) enter(next states) {
	last := t.states
	t.states = next
	entered := func(s state) bool { return next.in(s) && !last.in(s) }
	if next.stopped() && !last.stopped() {
		close(t.stopping)
	}
	if entered(stopForced) {
		close(t.forced)
	}
	if entered(keyClaimClosed) {
		close(t.closed)
	}
	if entered(keyReleased) {
		close(t.releasedCh)
	}
	switch {
	case last[regionSlot] == next[regionSlot]:
	case entered(slotUsed):
		t.reserved = t.a.slots.Share(t.entry.Reserves)
		t.a.slots.Take(t.reserved)
	case entered(slotWaiting):
		t.a.slots.Suspend(t.reserved)
	case last.in(slotUsed):
		t.a.slots.Release(t.reserved)
	case last.in(slotWaiting):
		t.a.slots.Finish()
	}
}

// restoreStates sets the states of a task whose entry was read from the journal, or
// moved from another task of the same key. The caller holds the lock, or the task is
// new.
func (t *task) restoreStates() { t.enter(statesOf(&t.entry)) }
