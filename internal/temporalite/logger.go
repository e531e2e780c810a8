package temporalite

import (
	"context"
	"log/slog"
	"os"

	"go.temporal.io/server/common/log/tag"
)

// logger forwards the server's warnings and errors, one level lower. It drops
// debug and info messages, which describe the server's internals.
type logger struct{ out *slog.Logger }

func (logger) Debug(string, ...tag.Tag)             {}
func (logger) Info(string, ...tag.Tag)              {}
func (l logger) Warn(msg string, tags ...tag.Tag)   { l.write(slog.LevelDebug, msg, tags) }
func (l logger) Error(msg string, tags ...tag.Tag)  { l.write(slog.LevelWarn, msg, tags) }
func (l logger) DPanic(msg string, tags ...tag.Tag) { l.write(slog.LevelError, msg, tags) }
func (l logger) Panic(msg string, tags ...tag.Tag)  { l.write(slog.LevelError, msg, tags) }

// Fatal ends the process, as the server expects of its logger.
func (l logger) Fatal(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	os.Exit(1)
}

func (l logger) write(level slog.Level, msg string, tags []tag.Tag) {
	attrs := make([]slog.Attr, 0, len(tags)+1)
	for _, t := range tags {
		attrs = append(attrs, slog.Any(t.Key(), t.Value()))
	}
	l.out.LogAttrs(context.Background(), level, "temporal: "+msg, attrs...) //nolint:sloglint // the message is the server's
}

// discard is the logger of the client that waits for the server.
type discard struct{}

func (discard) Debug(string, ...any) {}
func (discard) Info(string, ...any)  {}
func (discard) Warn(string, ...any)  {}
func (discard) Error(string, ...any) {}
