package docker

import (
	"bytes"
	"context"
	"time"
	"unicode/utf8"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

var _ executor.ServiceHandle = (*handle)(nil)

// ServiceLogs implements executor.ServiceHandle.
func (h *handle) ServiceLogs(ctx context.Context, limit int) ([]executor.ServiceLog, error) {
	d := h.driver
	others, err := d.others(ctx, h.key)
	if err != nil {
		return nil, err
	}
	var services, ids []string
	var ended []bool
	for _, c := range others {
		if c.Labels[d.options.label("role")] == roleService {
			services, ids = append(services, c.Labels[d.options.label("service")]), append(ids, c.ID)
			ended = append(ended, c.State == container.StateExited || c.State == container.StateDead)
		}
	}
	return executor.ReadServiceLogs(services, func(i int, to *executor.ServiceLog) error {
		err := readServiceLog(ctx, d, ids[i], to, limit)
		if !ended[i] {
			to.DropOpenLines()
		}
		return err
	})
}

func readServiceLog(ctx context.Context, d *Driver, id string, to *executor.ServiceLog, limit int) error {
	log, err := d.client.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true})
	if err != nil {
		return daemonError(err, "read the log of container %s", id)
	}
	defer func() { _ = log.Close() }()
	stored := 0
	stdout := &logWriter{log: to, stream: run.StreamStdout, limit: limit, stored: &stored}
	stderr := &logWriter{log: to, stream: run.StreamStderr, limit: limit, stored: &stored}
	_, err = stdcopy.StdCopy(stdout, stderr, log)
	if stored >= serviceLogBytes { // the daemon has begun a second file, and may have removed earlier ones
		to.Clip()
	}
	if err != nil {
		return daemonError(err, "read the log of container %s", id)
	}
	return nil
}

// logWriter receives a stream with timestamps. Each Write is one entry of the daemon: a line,
// or a part of a long one.
type logWriter struct {
	log    *executor.ServiceLog
	stream run.Stream
	limit  int
	stored *int // the bytes of both streams in the daemon's files, or a few more
}

// entryOverhead is the size of an entry without its text.
const entryOverhead = len(`{"log":"","stream":"stdout","time":"2006-01-02T15:04:05.000000000Z"}` + "\n")

// Write implements io.Writer.
func (w *logWriter) Write(p []byte) (int, error) {
	stamp, text, _ := bytes.Cut(p, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return 0, err
	}
	*w.stored += entrySize(text)
	w.log.Add(executor.LogPiece{Time: at, Stream: w.stream, Data: bytes.Clone(text)}, w.limit)
	return len(p), nil
}

// entrySize returns the size of an entry of the daemon, which escapes more than encoding/json.
func entrySize(text []byte) int {
	size := entryOverhead
	for len(text) > 0 {
		c, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case c == utf8.RuneError && n == 1, c == '\u2028', c == '\u2029', c == '<', c == '>', c == '&':
			size += len(`\u0000`)
		case c == '\n', c == '\r', c == '"', c == '\\':
			size += len(`\n`)
		case c < ' ':
			size += len(`\u0000`)
		default:
			size += n
		}
	}
	return size
}
