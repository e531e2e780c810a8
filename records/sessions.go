package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Sessions holds the open sessions: commands that clients run in the environments
// of running tasks. The gateway of the client's connection holds a session and
// renews its lease. An event records the begin and the end of each session, and an
// ended session has no row.
type Sessions interface {
	// OpenSession admits a session and appends its event. Errors: not_found (the
	// run, or the task), conflict (the task does not run on an executor),
	// forbidden (its pool forbids sessions), exhausted (its executor has as many
	// as it may have).
	OpenSession(ctx context.Context, s NewSession) (Session, error)
	// WaitingSessions returns the sessions that no executor has joined.
	WaitingSessions(ctx context.Context) ([]Session, error)
	// OfferSession reserves a session for an executor that has its task, or whose
	// set has: only this executor can join it, with a token of this digest, as long
	// as hold lasts. ok is false if another executor has such an offer, or none is
	// to be made.
	OfferSession(ctx context.Context, id, executor, digest string, hold time.Duration) (ok bool, err error)
	// JoinSession uses up the token of an offer. Errors: conflict (the offer does
	// not exist, was used, or is older than its time).
	JoinSession(ctx context.Context, id, executor, digest string) error
	// KeepSessions renews the leases of sessions.
	KeepSessions(ctx context.Context, ids []string, lease time.Duration) error
	// EndSession appends the event of the end of a session and removes it. A
	// session that has ended before is no error.
	EndSession(ctx context.Context, id, how string) error
	// ExpireSessions ends the sessions whose leases have expired: their gateways
	// were killed.
	ExpireSessions(ctx context.Context) (int, error)
}

// NewSession is a session to be opened.
type NewSession struct {
	ID      string
	Run     run.ID
	Task    string
	Subject string
	Command string // as the events show it; "" to release a held task
	Lease   time.Duration
	// Limit is the most sessions that the executor may have, or its set.
	Limit int
}

// Session is an open session.
type Session struct {
	ID       string
	Key      run.Key
	Executor string
	Set      string // of the executor; "" for none
}
