// Package logging makes the loggers of the processes: text or JSON, with unique
// keys and with durations as text.
package logging

import (
	"io"
	"log/slog"
)

// FormatJSON is the format of lines that are JSON objects. All others are text.
const FormatJSON = "json"

// New returns a logger of lines in a format.
func New(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == FormatJSON {
		return slog.New(&unique{next: slog.NewJSONHandler(w, options), keys: builtin()})
	}
	return slog.New(&unique{next: slog.NewTextHandler(w, options), keys: builtin()})
}
