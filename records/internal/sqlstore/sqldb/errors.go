package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/drover-run/drover/run"
)

// Wrap gives an error a code, unless it has one, and names the operation. It
// returns nil for nil.
func (db *DB) Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*run.Error](err); ok {
		return err
	}
	cause := fmt.Errorf("%s: %w", doing, err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &run.Error{Code: run.CodeTimeout, Message: "the records store did not answer in time", Err: cause}
	case errors.Is(err, context.Canceled):
		return &run.Error{Code: run.CodeCanceled, Message: "the call was canceled", Err: cause}
	case errors.Is(err, sql.ErrConnDone):
		return &run.Error{Code: run.CodeUnavailable, Message: "the records store is closed", Err: cause}
	}
	switch code := db.Dialect.Code(err); code { //nolint:exhaustive // drivers distinguish few errors
	case run.CodeUnavailable:
		return &run.Error{Code: code, Message: "the records store is out of reach", Err: cause}
	case run.CodeConflict:
		return &run.Error{Code: code, Message: "it exists already", Err: cause}
	case run.CodeInvalid:
		return &run.Error{Code: code, Message: "a text holds characters that cannot be stored", Err: cause}
	case run.CodeTimeout:
		return &run.Error{Code: code, Message: "the records store did not answer in time", Err: cause}
	case run.CodeCanceled:
		return &run.Error{Code: code, Message: "the call was canceled", Err: cause}
	}
	return &run.Error{Code: run.CodeInternal, Err: cause}
}
