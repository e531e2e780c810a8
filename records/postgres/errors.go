package postgres

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// The PostgreSQL error codes that the store distinguishes.
const (
	uniqueViolation      = "23505"
	badText              = "22021" // invalid byte sequence
	badTextEscape        = "22P05"
	queryCanceled        = "57014"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"

	classConnection = "08"
	classResources  = "53" // out of memory, disk or connections
	classShutdown   = "57P"
)

func dialect() sqldb.Dialect {
	return sqldb.Dialect{
		Explain:     `EXPLAIN `,
		LockSharing: `SELECT pg_advisory_xact_lock(` + strconv.FormatInt(lockSharing, 10) + `)`,
		LockPools:   `SELECT pg_advisory_xact_lock(` + strconv.FormatInt(lockPools, 10) + `)`,
		ForKeyShare: " FOR KEY SHARE",
		ForUpdate:   " FOR UPDATE",
		SkipLocked:  " FOR UPDATE SKIP LOCKED",
		LastEvent:   `SELECT last FROM event_sequence`,
		Code:        code,
	}
}

func code(err error) run.Code {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return codeOfConnection(err)
	}
	switch e.Code {
	case uniqueViolation:
		return run.CodeConflict
	case badText, badTextEscape:
		return run.CodeInvalid
	case queryCanceled:
		return run.CodeCanceled
	case serializationFailure, deadlockDetected:
		return run.CodeUnavailable
	}
	for _, class := range []string{classConnection, classResources, classShutdown} {
		if strings.HasPrefix(e.Code, class) {
			return run.CodeUnavailable
		}
	}
	return ""
}

// codeOfConnection returns CodeUnavailable for errors of a lost or refused
// connection.
func codeOfConnection(err error) run.Code {
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, driver.ErrBadConn),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), pgconn.SafeToRetry(err):
		return run.CodeUnavailable
	}
	if strings.Contains(err.Error(), "conn closed") { // pgx exports no error value for it
		return run.CodeUnavailable
	}
	return ""
}

// retryable reports whether the database requires that the transaction is
// retried.
func retryable(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == serializationFailure || e.Code == deadlockDetected)
}
