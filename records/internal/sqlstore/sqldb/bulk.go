package sqldb

import (
	"context"
	"strings"
)

// Statements for many rows have three sizes, so that a database prepares few
// statements. The sizes are small, because the time in which SQLite's driver
// binds parameters grows with the square of their number.
const (
	manyRows = 16
	SomeRows = 8
)

// Bulk runs a statement for n rows with as few calls as its sizes allow. The
// statement is before, a tuple of placeholders for each row, and after.
func Bulk(ctx context.Context, q Querier, before, tuple, after string, n int, row func(i int, args []any) []any) error {
	for i := 0; i < n; {
		size := 1
		switch {
		case n-i >= manyRows:
			size = manyRows
		case n-i >= SomeRows:
			size = SomeRows
		}
		var args []any
		for k := range size {
			args = row(i+k, args)
		}
		if _, err := q.Exec(ctx, before+Tuples(tuple, size)+after, args...); err != nil {
			return err
		}
		i += size
	}
	return nil
}

// Tuples returns n tuples, separated by commas.
func Tuples(tuple string, n int) string {
	if n == 1 {
		return tuple
	}
	return strings.Repeat(tuple+", ", n-1) + tuple
}

// InChunks calls fn with the numbers in groups of a fixed length, for
// statements with IN (...). It fills up the last group by repeating the last
// number.
func InChunks(numbers []int, fn func(placeholders string, args []any) error) error {
	for len(numbers) > 0 {
		size := 1
		if len(numbers) > 1 {
			size = 50
		}
		args := make([]any, size)
		for i := range args {
			args[i] = numbers[min(i, len(numbers)-1)]
		}
		if err := fn("("+Tuples("?", size)+")", args); err != nil {
			return err
		}
		numbers = numbers[min(size, len(numbers)):]
	}
	return nil
}
