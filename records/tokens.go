package records

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Tokens holds the last uses and the revocations of bearer tokens, by the hash
// of the token. The tokens themselves are in the files of the gateways.
type Tokens interface {
	// TokenRecords returns all records, or only those of revoked tokens.
	TokenRecords(ctx context.Context, revoked bool) ([]run.TokenRecord, error)
	// RecordTokenUses stores the times of last uses. An earlier time than the
	// stored one changes nothing.
	RecordTokenUses(ctx context.Context, uses []run.TokenRecord) error
	// RecordTokenRevocation stores a revocation, at the time of the store. The
	// first one stays.
	RecordTokenRevocation(ctx context.Context, r run.TokenRecord) error
}
