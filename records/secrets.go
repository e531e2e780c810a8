package records

import "context"

// Secrets is the part of a store that encrypts secrets.
type Secrets interface {
	// Reencrypt encrypts up to n secrets again that are stored in the clear or
	// were sealed with another key than the current one. It returns how many it
	// found: 0 means that none is left. It may run while the store is in use,
	// in any process that has both keys. Errors: invalid (there is no key),
	// internal (a secret cannot be opened; then nothing is changed).
	Reencrypt(ctx context.Context, n int) (int, error)
}
