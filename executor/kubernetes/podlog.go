package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-run/drover/run"
)

// logged reads the copy of the frames in the log of the task's container, from
// a number on, which the node keeps as long as the pod is there. It may have
// gaps. A log that is not there has none.
func (d *Driver) logged(ctx context.Context, pod, nonce string, from int64, take func(run.Frame) bool) error {
	log, err := d.openLog(ctx, pod, &corev1.PodLogOptions{Container: mainContainer})
	if err != nil || log == nil {
		return err
	}
	defer func() { _ = log.Close() }()
	mark := []byte(nonce + " ")
	for lines := bufio.NewReaderSize(log, execBuffer); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil // the last line was cut off by the death of its writer
		case err != nil:
			return serverError(err, "reading the log of the pod %s", pod)
		}
		text, ok := bytes.CutPrefix(line, mark)
		if !ok {
			continue
		}
		frame, err := decodeFrame(text)
		if err != nil {
			return err
		}
		if frame.N >= from && !take(frame) {
			return nil
		}
	}
}

// openLog returns nil where there is no log.
func (d *Driver) openLog(ctx context.Context, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
	log, err := d.pods().GetLogs(pod, options).Stream(ctx)
	switch {
	case err == nil:
		return log, nil
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err): // no pod, or its container was never started
		return nil, nil //nolint:nilnil // as it says
	}
	return nil, serverError(err, "reading the log of the pod %s", pod)
}

// lastLines returns the last lines that a container has printed.
func (d *Driver) lastLines(ctx context.Context, pod, container string, most int64) ([]string, error) {
	ctx, cancel := d.call(ctx)
	defer cancel()
	log, err := d.openLog(ctx, pod, &corev1.PodLogOptions{Container: container, TailLines: &most})
	if err != nil || log == nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	const enough = 64 << 10
	text, err := io.ReadAll(io.LimitReader(log, enough))
	if err != nil {
		return nil, serverError(err, "reading the log of the pod %s", pod)
	}
	trimmed := strings.TrimSpace(string(text))
	if trimmed == "" {
		return nil, nil
	}
	return strings.Split(trimmed, "\n"), nil
}

func decodeFrame(text []byte) (run.Frame, error) {
	var f run.Frame
	if err := json.Unmarshal(text, &f); err != nil {
		return f, run.Errorf(run.CodeInternal, "reading a frame of the shim: %w", err)
	}
	if f.Version > run.FrameVersion {
		return f, run.Errorf(run.CodeInternal, "the shim writes frames of version %d, this executor reads up to %d", f.Version, run.FrameVersion)
	}
	return f, nil
}
