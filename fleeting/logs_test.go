//go:build linux

package fleeting_test

import (
	"log/slog"
	"strings"
	"sync"
)

// logRecords collects log records as lines.
type logRecords struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (r *logRecords) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.Write(line)
}

func (r *logRecords) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.String()
}

func (r *logRecords) has(part string) bool { return strings.Contains(r.text(), part) }

func (r *logRecords) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug - 4, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
