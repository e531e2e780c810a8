package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-run/drover/executor"
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

// lastLines returns the last lines that a container has printed.
func (d *Driver) lastLines(ctx context.Context, pod, container string) ([]string, error) {
	ctx, cancel := d.call(ctx)
	defer cancel()
	tail := int64(serviceTail + 1)
	log, err := d.openLog(ctx, pod, &corev1.PodLogOptions{Container: container, TailLines: &tail})
	if err != nil || log == nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	last := executor.LastLines{Limit: serviceTail}
	if _, err := io.Copy(&last, log); err != nil {
		return nil, ServerError(err, "read the log of the pod %s", pod)
	}
	return last.Lines(), nil
}
