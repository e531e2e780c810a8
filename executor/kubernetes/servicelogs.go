package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

const (
	// serviceLines bounds the lines of a service that are read.
	serviceLines = 10_000
	// logPiece is how much of a line is read at once: not more than a container runtime stores
	// as one entry, of which serviceLines counts each.
	logPiece = 4 << 10
)

var _ executor.ServiceHandle = (*handle)(nil)

// ServiceLogs implements executor.ServiceHandle.
func (h *handle) ServiceLogs(ctx context.Context, limit int) ([]executor.ServiceLog, error) {
	pod, err := h.driver.pod(ctx, h.pod)
	switch {
	case err != nil:
		return nil, err
	case pod == nil || pod.UID != h.uid:
		return nil, run.Errorf(run.CodeNotFound, "there is no pod %s", h.pod)
	case pod.Annotations[annotationServices] == "":
		return nil, nil
	}
	return executor.ReadServiceLogs(strings.Split(pod.Annotations[annotationServices], ","), func(i int, to *executor.ServiceLog) error {
		service := fmt.Sprint(serviceContainer, i)
		err := h.driver.serviceLog(ctx, h.pod, service, to, limit)
		if terminated(pod, service) == nil {
			to.DropOpenLines()
		}
		return err
	})
}

func (d *Driver) serviceLog(ctx context.Context, pod, container string, to *executor.ServiceLog, limit int) error {
	lines := int64(serviceLines)
	log, err := d.openLog(ctx, pod, &corev1.PodLogOptions{Container: container, TailLines: &lines, Timestamps: true})
	if err != nil || log == nil {
		return err
	}
	defer func() { _ = log.Close() }()
	n, err := addStamped(to, log, limit)
	if n >= serviceLines {
		to.Clip()
	}
	if err != nil {
		return ServerError(err, "read the log of the pod %s", pod)
	}
	return nil
}

// addStamped adds the lines of a log with timestamps. It leaves out lines without one, such
// as messages of the node. It returns how many lines the node counts at most: it counts each
// part of a long one.
func addStamped(to *executor.ServiceLog, log io.Reader, limit int) (n int64, err error) {
	var at time.Time // of the line; zero if it has no timestamp
	begun := false
	for from := bufio.NewReaderSize(log, logPiece); ; {
		text, err := from.ReadSlice('\n')
		if !begun && len(text) > 0 {
			stamp, rest, _ := bytes.Cut(text, []byte(" "))
			if at, _ = time.Parse(time.RFC3339Nano, string(stamp)); !at.IsZero() {
				text = rest
			}
		}
		if !at.IsZero() && len(text) > 0 {
			to.Add(executor.LogPiece{Time: at, Data: bytes.Clone(text)}, limit)
		}
		begun = errors.Is(err, bufio.ErrBufferFull)
		if len(text) > 0 {
			n++
		}
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil && !begun:
			return n, err
		}
	}
}
