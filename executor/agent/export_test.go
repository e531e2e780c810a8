package agent

import "github.com/drover-run/drover/run"

// IllegalTransition is the message of an error in the life cycle of a task.
const IllegalTransition = illegalTransition

// Seal makes the agent write nothing any more, as if its process were dead.
func (a *Agent) Seal() { a.journal.seal.Store(true) }

// Unlock releases the lock of the state dir, as a dead process does.
func (a *Agent) Unlock() error { return a.identity.Close() }

// SlotsInUse returns how many tasks take a slot.
func (a *Agent) SlotsInUse() int { return a.slots.InUse() }

// States describes what this process knows of a key.
func (a *Agent) States(key run.Key) string {
	t := a.find(key)
	if t == nil {
		return "not in memory"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states.String()
}
