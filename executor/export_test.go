package executor

// Seal makes the agent write nothing any more, as if its process was dead.
func (a *Agent) Seal() { a.journal.seal.Store(true) }

// Unlock gives the lock of the state dir back, as a dead process does.
func (a *Agent) Unlock() error { return a.who.close() }

// SlotsInUse returns how many tasks count.
func (a *Agent) SlotsInUse() int { return a.slots.inUse() }
