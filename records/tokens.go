package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Tokens holds the last uses and the revocations of bearer tokens, by the hash
// of the token, and the entries of those that clients created. The other entries
// are in the files of the gateways. No store has a token itself.
type Tokens interface {
	// TokenRecords returns all records, or only those of tokens that were revoked, or
	// that clients created.
	TokenRecords(ctx context.Context, revoked bool) ([]run.TokenRecord, error)
	// CreateToken stores a token that a client created, at the time of the store.
	// Errors: conflict (a client created one of the name).
	CreateToken(ctx context.Context, r run.TokenRecord) error
	// RecordTokenUses stores the times of last uses. An earlier time than the
	// stored one changes nothing.
	RecordTokenUses(ctx context.Context, uses []run.TokenRecord) error
	// RecordTokenRevocation stores a revocation, at the time of the store. The
	// first one stays.
	RecordTokenRevocation(ctx context.Context, r run.TokenRecord) error
}

// BrowserSessions holds the logins of browsers.
type BrowserSessions interface {
	// CreateBrowserSession stores a session, at the time of the store.
	CreateBrowserSession(ctx context.Context, s run.BrowserSession) error
	// ReadBrowserSession returns the session with a hash. Errors: not_found.
	ReadBrowserSession(ctx context.Context, hash string) (run.BrowserSession, error)
	// RecordBrowserUses stores the times of last uses, by the hashes of sessions. An
	// earlier time than the stored one, and a session that is gone, change nothing.
	RecordBrowserUses(ctx context.Context, uses map[string]time.Time) error
	// ClaimBrowserConfirmation sets ConfirmAfter of a session, if it is still as
	// expected: of several callers one claims the right to ask the provider.
	ClaimBrowserConfirmation(ctx context.Context, hash string, expected, next time.Time) (bool, error)
	// ConfirmBrowserSession stores what the provider said: Identity, Sealed, Confirmed
	// and ConfirmAfter. A session that is gone stays gone.
	ConfirmBrowserSession(ctx context.Context, s run.BrowserSession) error
	// EndBrowserSession removes the session with a hash, if it exists.
	EndBrowserSession(ctx context.Context, hash string) error
	// EndBrowserSessions removes all sessions of a token.
	EndBrowserSessions(ctx context.Context, token string) error
	// ForgetBrowserSessions removes up to n sessions that have expired, or were last
	// used before a time.
	ForgetBrowserSessions(ctx context.Context, unused time.Time, n int) (int, error)
}
