package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

// readLog reads the copy of the frames in the log of the task's container from
// the given frame on. The node keeps the log as long as the pod exists. A copy
// with a gap, caused by a slow reader, counts as a damaged journal, since
// nothing else is left of the journal. A missing log has no frames.
func (d *Driver) readLog(ctx context.Context, pod, nonce string, from int64, take func(run.Frame) bool) error {
	log, err := d.openLog(ctx, pod, &corev1.PodLogOptions{Container: mainContainer})
	if err != nil || log == nil {
		return err
	}
	defer func() { _ = log.Close() }()
	mark, last := []byte(nonce+" "), int64(0)
	for lines := journal.NewLineReader(log); ; {
		line, err := lines.Next()
		text, ours := bytes.CutPrefix(line, mark)
		switch {
		case errors.Is(err, io.EOF):
			return nil // an incomplete last line was cut off when its writer died
		case err != nil && !errors.Is(err, journal.ErrDamaged):
			return ServerError(err, "read the log of the pod %s", pod)
		case !ours:
			continue
		case err != nil:
			return err
		}
		frame, err := journal.Decode(text)
		if err != nil {
			return err
		}
		if last > 0 && frame.N > last+1 && frame.N > from {
			return journal.Damaged("the copy in the container's log lacks the frames %d to %d", max(last+1, from), frame.N-1)
		}
		last = frame.N
		if frame.N >= from && !take(frame) {
			return nil
		}
	}
}

// openLog returns nil if there is no log.
func (d *Driver) openLog(ctx context.Context, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
	log, err := d.pods().GetLogs(pod, options).Stream(ctx)
	switch {
	case err == nil:
		return log, nil
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err): // there is no pod, or its container was never started
		return nil, nil //nolint:nilnil // no log
	}
	return nil, ServerError(err, "read the log of the pod %s", pod)
}

// lastBytes is how much of the last lines of a container is kept.
const lastBytes = 64 << 10

// lastLines returns the last lines that a container has printed.
func (d *Driver) lastLines(ctx context.Context, pod, container string, limit int64) ([]string, error) {
	ctx, cancel := d.call(ctx)
	defer cancel()
	log, err := d.openLog(ctx, pod, &corev1.PodLogOptions{Container: container, TailLines: &limit})
	if err != nil || log == nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	text, err := wholeLines(log, lastBytes)
	if err != nil {
		return nil, ServerError(err, "read the log of the pod %s", pod)
	}
	trimmed := strings.TrimSpace(string(text))
	if trimmed == "" {
		return nil, nil
	}
	return strings.Split(trimmed, "\n"), nil
}

// wholeLines reads to the end and returns the last lines, at most limit bytes. It drops a
// line that does not fit: a mask would not recognize a part of a secret.
func wholeLines(from io.Reader, limit int) ([]byte, error) {
	var kept []byte
	part, cut := make([]byte, limit), false
	for {
		n, err := io.ReadFull(from, part)
		kept = append(kept, part[:n]...)
		if over := len(kept) - limit; over > 0 {
			kept, cut = kept[over-1:], true // with the byte before, which may end a line
		}
		switch {
		case err == nil:
			continue
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return nil, err
		case cut:
			_, kept, _ = bytes.Cut(kept, []byte("\n"))
		}
		return kept, nil
	}
}
