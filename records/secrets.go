package records

import "context"

// Secrets is the part of a store that keeps secrets.
type Secrets interface {
	// Reseal encrypts up to n secrets anew that are stored in the clear or were
	// sealed with another key than the current, and returns how many it found: 0
	// means that none is left. It may be called while others use the store, in
	// any process that has both keys. Errors: invalid (there is no key), internal
	// (one cannot be opened; nothing is changed then).
	Reseal(ctx context.Context, n int) (int, error)
}
