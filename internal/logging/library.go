package logging

import (
	"context"
	"log/slog"
)

// Library returns the logger of a library, whose messages at the level info describe its
// own work: they are written at the level debug.
func Library(logger *slog.Logger) *slog.Logger {
	return slog.New(library{logger.Handler()})
}

type library struct{ next slog.Handler }

var _ slog.Handler = library{}

// Enabled implements slog.Handler.
func (l library) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, lowered(level))
}

// Handle implements slog.Handler.
func (l library) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lowered(r.Level)
	return l.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l library) WithAttrs(attrs []slog.Attr) slog.Handler { return library{l.next.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (l library) WithGroup(name string) slog.Handler { return library{l.next.WithGroup(name)} }

func lowered(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}
