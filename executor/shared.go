package executor

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Shared is a journal that the members of an executor set share. Each key belongs
// to one member; the other members take over the keys of a member that vanishes. A
// write by any other than the member that has the key fails with ErrLost.
//
// The order of calls is Run, in a goroutine, then the calls of Journal and its
// Lines, then Close, then the end of Run's context.
type Shared interface {
	Journal
	// Set returns the name of the set.
	Set() string
	// Run keeps this process a member until ctx ends, and notifies k of changes to
	// keys. At its end it hands over the keys of this member, so that the other
	// members need not wait for a timeout.
	Run(ctx context.Context, k KeyHandler)
	// Valid returns nil while no other member may take over the keys of this one.
	// While it returns an error, nothing can be written, and no outcome may be
	// reported: another member may be about to find one.
	Valid() error
	// Has reports whether, as far as this process knows, a member of the set has an
	// entry of the key.
	Has(key run.Key) bool
	// Request stores a request for the current or next member that has a key. found is
	// false if there is no entry of the key. An empty request only checks that.
	// Errors: CodeUnavailable.
	Request(ctx context.Context, key run.Key, o KeyRequest) (found bool, err error)
}

// KeyRequest is a request of one member of a set to the member that has a key.
type KeyRequest struct {
	// Token is the token of an adoption; nil for none.
	Token []byte
	Stop  bool // the task is to be stopped
	Force bool // with Stop: without a cleanup
	// Ack is to be called once the token was journaled.
	Ack func()
}

// KeyHandler handles the keys of a Shared journal; an agent implements it. Its methods
// may be called at the same time. Adopt and Deliver may take as long as ctx; the
// others do not wait.
type KeyHandler interface {
	// Accepting reports whether keys may be taken over now.
	Accepting() bool
	// Adopt passes a key that this member has taken over. If it fails, the journal must
	// pass the key again later.
	Adopt(ctx context.Context, p JournalEntry) error
	// Release reports that another member has the key.
	Release(key run.Key)
	// Deliver delivers a request for a key of this member, and reports whether it was
	// handled. A repeated request has no further effect.
	Deliver(ctx context.Context, key run.Key, o KeyRequest) bool
}
