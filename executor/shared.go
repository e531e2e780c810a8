package executor

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Shared is a journal that the members of an executor set have together, and
// what holds the set together: each key is some member's, a member that
// vanishes loses its keys to the others, and whatever is written is refused
// with ErrLost to all but the one that has the key.
//
// The order of calls is Run, in a goroutine, then the calls of Journal and its
// Lines, then Close, then the end of Run's context.
type Shared interface {
	Journal
	// Set returns the name of the set.
	Set() string
	// Run keeps this process a member until ctx ends, and tells the keeper
	// what becomes of keys. At its end it hands over what this member still
	// has, so that the others need not find out by waiting.
	Run(ctx context.Context, k Keeper)
	// Valid returns nil while no other member may take over the keys of this
	// one. While it is not, nothing can be written, and nobody may be told
	// how a task ended: another may be about to find out.
	Valid() error
	// Has reports whether a member of the set has something of the key, as far
	// as is known here.
	Has(key run.Key) bool
	// Order leaves word for the member that has a key, now or next. found is
	// false where none has anything of it. An order of nothing only finds that
	// out. Errors: CodeUnavailable.
	Order(ctx context.Context, key run.Key, o Order) (found bool, err error)
}

// Order is what one member of a set wants of the member that has a key.
type Order struct {
	// Token is of an order to adopt the task; nil for none.
	Token []byte
	Stop  bool // the task is to be stopped
	// Taken is to be called when the token was written down.
	Taken func()
}

// Keeper is the side of a Shared journal that deals with keys: an agent. Its
// methods may be called at the same time. Gain and Ordered may take as long as
// ctx; the others do not wait.
type Keeper interface {
	// Willing reports whether keys may be taken over now.
	Willing() bool
	// Gain gives a key that this member has taken over. Where it fails the key
	// is to be given again later.
	Gain(ctx context.Context, p Page) error
	// Lose says that another member has the key.
	Lose(key run.Key)
	// Ordered gives an order for a key of this member, and reports whether it
	// was heard. One that is given again changes nothing.
	Ordered(ctx context.Context, key run.Key, o Order) bool
}
