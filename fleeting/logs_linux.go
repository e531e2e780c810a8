package fleeting

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

const (
	levelTrace   = slog.LevelDebug - 4
	keptLines    = 20
	flushWait    = time.Second
	markerPrefix = "drover-flush "
)

// logs converts the plugin's stderr, JSON lines of hclog, into records of this
// process's logger. It keeps the last lines for errors.
type logs struct {
	pipe   *os.File
	logger *slog.Logger
	done   chan struct{}

	mu      sync.Mutex
	last    []string
	markers map[string]chan struct{}
	flushes int
}

func openLogs(dir string, logger *slog.Logger) (*logs, error) {
	path := filepath.Join(dir, logFile)
	if err := unix.Mkfifo(path, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	pipe, err := openPipe(path, unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	l := &logs{pipe: pipe, logger: logger, done: make(chan struct{}), markers: map[string]chan struct{}{}}
	go l.read()
	return l, nil
}

func (l *logs) close() {
	_ = l.pipe.Close()
	<-l.done
}

func (l *logs) read() {
	defer close(l.done)
	r := bufio.NewReaderSize(l.pipe, 64<<10)
	for {
		// Lines longer than the buffer arrive in pieces.
		line, _, err := r.ReadLine()
		if err != nil {
			return
		}
		l.take(string(line))
	}
}

func (l *logs) take(line string) {
	if marker, ok := strings.CutPrefix(line, markerPrefix); ok {
		l.mu.Lock()
		if seen, ok := l.markers[marker]; ok {
			delete(l.markers, marker)
			close(seen)
		}
		l.mu.Unlock()
		return
	}
	l.mu.Lock()
	l.last = append(l.last, line)
	if len(l.last) > keptLines {
		l.last = slices.Delete(l.last, 0, 1)
	}
	l.mu.Unlock()
	logLine(l.logger, line)
}

// forget drops the kept lines of an earlier process.
func (l *logs) forget() {
	l.mu.Lock()
	l.last = nil
	l.mu.Unlock()
}

// tail returns the plugin's last lines. It first waits for lines that are still
// in the pipe.
func (l *logs) tail() string {
	seen := make(chan struct{})
	l.mu.Lock()
	l.flushes++
	marker := strconv.Itoa(l.flushes)
	l.markers[marker] = seen
	l.mu.Unlock()
	if _, err := io.WriteString(l.pipe, markerPrefix+marker+"\n"); err == nil {
		timer := time.NewTimer(flushWait)
		defer timer.Stop()
		select {
		case <-seen:
		case <-timer.C:
		case <-l.done:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.markers, marker)
	return strings.Join(l.last, "\n")
}

// Write receives a line of the go-plugin library itself.
func (l *logs) Write(line []byte) (int, error) {
	logLine(l.logger, strings.TrimSpace(string(line)))
	return len(line), nil
}

// library returns the logger for the go-plugin library. It lowers the level of
// all lines, because the host logs the important events itself.
func (l *logs) library() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "go-plugin", Level: hclog.Debug, Output: debugLogger{l}, JSONFormat: true, DisableTime: true})
}

// debugLogger logs all lines at debug level.
type debugLogger struct{ logs *logs }

func (d debugLogger) Write(line []byte) (int, error) {
	fields := map[string]any{}
	if json.Unmarshal(line, &fields) == nil {
		fields["@level"] = "debug"
		if text, err := json.Marshal(fields); err == nil {
			logLine(d.logs.logger, string(text))
		}
	}
	return len(line), nil
}

// logLine logs a line of hclog as a record. Other lines become warnings: most of
// them are the end of a panic's output.
func logLine(logger *slog.Logger, line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	level, message, attrs := slog.LevelWarn, line, []slog.Attr(nil)
	fields := map[string]any{}
	if json.Unmarshal([]byte(line), &fields) == nil && fields["@message"] != nil {
		message = fmt.Sprint(fields["@message"])
		level = levelOf(fmt.Sprint(fields["@level"]))
		for _, key := range sorted(fields) {
			if key == "@module" {
				attrs = append(attrs, slog.Any("module", fields[key]))
			} else if !strings.HasPrefix(key, "@") {
				attrs = append(attrs, slog.Any(key, fields[key]))
			}
		}
	}
	ctx := context.Background()
	if !logger.Enabled(ctx, level) {
		return
	}
	// The message comes from the plugin: the handler gets the record directly.
	record := slog.NewRecord(time.Now(), level, message, 0)
	record.AddAttrs(attrs...)
	_ = logger.Handler().Handle(ctx, record)
}

func levelOf(name string) slog.Level {
	switch strings.ToLower(name) {
	case "trace":
		return levelTrace
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

func sorted(fields map[string]any) []string {
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
