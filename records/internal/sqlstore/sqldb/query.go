package sqldb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// DefaultLimit is the size of a page if the query does not set one.
const DefaultLimit = 25

// TextArgs returns strings as query arguments.
func TextArgs[T ~string](list []T) []any {
	args := make([]any, len(list))
	for i, v := range list {
		args[i] = string(v)
	}
	return args
}

// InList returns the placeholders for up to n texts. Their number is a power of
// two, so that a database prepares few statements.
func InList(n int) string { return Tuples(`?`, powerOfTwo(n)) }

// InListArgs returns the arguments for InList, padded with the last text.
func InListArgs[T ~string](list []T) []any {
	args := TextArgs(list)
	for range powerOfTwo(len(list)) - len(list) {
		args = append(args, string(list[len(list)-1]))
	}
	return args
}

func powerOfTwo(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

// QueryIDs returns the ids that a query selects.
func QueryIDs(ctx context.Context, q Querier, query string, args ...any) ([]run.ID, error) {
	var ids []run.ID
	err := Each(ctx, q, func(row Scanner) error {
		var id run.ID
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	}, query, args...)
	return ids, err
}

// Each calls fn for each row of a query.
func Each(ctx context.Context, q Querier, fn func(row Scanner) error, query string, args ...any) error {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Scanner is a row of a query.
type Scanner interface{ Scan(dest ...any) error }

// Marshal encodes a value as JSON text.
func Marshal(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return string(b), nil
}

// Unmarshal decodes JSON text; "" leaves v unchanged.
func Unmarshal(text string, v any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("decode a stored %T: %w", v, err)
	}
	return nil
}

// ToTime converts a stored time to a Go time.
func ToTime(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// FromTime converts a Go time to a stored time.
func FromTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Clip makes a reason storable: it cuts it to run.MaxReason and removes invalid
// characters.
func Clip(reason string) string {
	reason = truncate.String(reason, run.MaxReason, "")
	return strings.ReplaceAll(strings.ToValidUTF8(reason, ""), "\x00", "")
}
